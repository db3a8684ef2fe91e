"""What a check says: findings with their numbers, what was inferred, and what was not exercised. Plain data, JSON in and out."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any

from regard.core.errors import RegardError

LEVELS = ("error", "warning", "question")


@dataclass
class Finding:
    """One thing that a rule found.

    `measured` and `allowed` are numbers or short texts; `where` is "file:line" or a module path; `example` is the smallest
    input found, in words; `script` reproduces it without regard; `diff` is the fix where it is mechanical.
    """

    rule: str  # "ATT101"
    name: str  # "padding_content"
    level: str  # "error" | "warning" | "question"
    message: str
    kind: str | None = None  # the slug of the likely cause; None where only the symptom is known
    where: str | None = None
    module: str | None = None  # the part of a model where it comes in: "layers.2.attn"
    measured: Any = None
    allowed: Any = None
    example: str | None = None
    cause: str | None = None
    fix: str | None = None
    script: str | None = None
    diff: str | None = None
    waived: str | None = None  # why it does not count: the waiver's reason, or the baseline that knows it

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Finding:
        known = {f.name for f in fields(cls)}
        return cls(**{k: v for k, v in data.items() if k in known})


@dataclass
class Outcome:
    """What one rule did: "passed", "failed", "question" (asked) or "not-exercised" (with the reason)."""

    rule: str
    name: str
    result: str
    reason: str = ""
    seconds: float = 0.0


@dataclass
class Report:
    """Everything said about one target.

    status: "checked", "not-exercised" (built or called in no way that we know) or "not-loaded"; `reason` says why.
    """

    target: str
    status: str = "checked"
    reason: str = ""
    inferred: dict[str, Any] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # stubs, limits, anything seen and not understood
    seconds: float = 0.0
    where: str | None = None  # "file:line" where the target is defined
    waived: list[Finding] = field(default_factory=list)  # findings that stand, and do not count

    @property
    def ok(self) -> bool:
        """Checked, and no finding of level error."""
        return self.status == "checked" and not self.errors

    @property
    def errors(self) -> list[Finding]:
        return [f for f in self.findings if f.level == "error"]

    @property
    def counts(self) -> dict[str, int]:
        results = [o.result for o in self.outcomes]
        return {
            "checks": len(results),
            "passed": results.count("passed"),
            "failed": results.count("failed"),
            "questions": results.count("question"),
            "not_exercised": results.count("not-exercised"),
        }

    def raise_if_failed(self) -> Report:
        """Return the report, or raise CheckFailed when there is an error or the target was not exercised."""
        if self.ok:
            return self
        if self.status != "checked":
            raise CheckFailed(f"{self.target} was {self.status.replace('-', ' ')}: {self.reason}")
        lines = [f"{f.rule} {f.name}: {f.message}" for f in self.errors]
        raise CheckFailed(f"{self.target}: {len(lines)} error(s)\n" + "\n".join(lines))

    def to_dict(self) -> dict[str, Any]:
        return {
            "target": self.target,
            "status": self.status,
            "reason": self.reason,
            "inferred": self.inferred,
            "findings": [f.to_dict() for f in self.findings],
            "counts": self.counts,
            "outcomes": [asdict(o) for o in self.outcomes],
            "notes": self.notes,
            "seconds": self.seconds,
            "where": self.where,
            "waived": [f.to_dict() for f in self.waived],
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Report:
        return cls(
            target=data["target"],
            status=data["status"],
            reason=data.get("reason", ""),
            inferred=data.get("inferred", {}),
            findings=[Finding.from_dict(f) for f in data.get("findings", [])],
            outcomes=[Outcome(**o) for o in data.get("outcomes", [])],
            notes=data.get("notes", []),
            seconds=data.get("seconds", 0.0),
            where=data.get("where"),
            waived=[Finding.from_dict(f) for f in data.get("waived", [])],
        )

    def _repr_html_(self) -> str:
        from regard.checks.report_html import report_html

        return report_html(self)


class CheckFailed(RegardError, AssertionError):
    """raise_if_failed() found an error, or a target that was not exercised."""
