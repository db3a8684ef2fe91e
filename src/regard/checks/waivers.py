"""Findings that somebody decided to live with: a waiver names a rule and a reason, and fails when it excuses nothing.

Three places: a comment on the line of the class (`# regard: ignore[ATT601] reason`), the table
`[tool.regard.check.waivers]` of pyproject.toml (`"model.py:Attention" = { ATT601 = "reason" }`), and the argument `--waive`.
"""

from __future__ import annotations

import ast
import contextlib
import io
import re
import tokenize
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from regard.checks.load import split_target
from regard.checks.report import Finding, Report
from regard.core.errors import DesignError

COMMENT = re.compile(r"#\s*regard:\s*ignore\[(?P<rules>[^\]]*)\]\s*(?P<reason>.*)")


@dataclass(frozen=True)
class Waiver:
    """One rule waived at one place: for a whole report, or (`lines` given) for findings that stand in these lines of the file."""

    rule: str
    reason: str
    place: str  # "model.py:12", "pyproject.toml", "--waive"
    file: str = ""
    lines: range | None = None

    def covers(self, finding: Finding) -> bool:
        """Is this a finding of the waived rule, and in its lines?"""
        if finding.rule != self.rule or self.lines is None:
            return finding.rule == self.rule
        file, line = place_of(finding.where)
        return file is not None and Path(file).resolve() == Path(self.file).resolve() and line in self.lines


def comment_waivers(file: Path) -> list[Waiver]:
    """Waivers that stand in comments on the head of a class or function of a file (decorators included)."""
    source = file.read_text(encoding="utf-8")
    if "regard:" not in source:  # a folder may hold a thousand targets
        return []
    comments = {
        token.start[0]: found
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT and (found := COMMENT.search(token.string))
    }
    waivers = []
    for node in ast.walk(ast.parse(source)) if comments else ():
        if not isinstance(node, ast.ClassDef | ast.FunctionDef):
            continue
        first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
        head = range(first, max(node.lineno, node.body[0].lineno - 1) + 1)
        body = range(first, (node.end_lineno or first) + 1)
        for line in [n for n in head if n in comments]:
            rules = [r.strip() for r in comments[line]["rules"].split(",")]
            reason = comments[line]["reason"].strip()
            waivers += [Waiver(rule, reason, f"{file.name}:{line}", str(file), body) for rule in rules if rule]
    return waivers


def table_waivers(table: dict[str, Any], folder: Path, report: Report) -> list[Waiver]:
    """Waivers of `[tool.regard.check.waivers]` for one report; paths in the table start at `folder`.

    Raises:
        DesignError: an entry is not a table of rule = "reason".
    """
    waivers = []
    for target, rules in table.items():
        if not isinstance(rules, dict) or not all(isinstance(reason, str) for reason in rules.values()):
            raise DesignError(
                f'[tool.regard.check.waivers] of {target!r} must be a table such as {{ ATT601 = "reason" }}'
            )
        if _same_target(target, folder, report.target):
            waivers += [Waiver(rule, reason.strip(), "pyproject.toml") for rule, reason in rules.items()]
    return waivers


def argument_waiver(text: str) -> Waiver:
    """From "ATT601=reason".

    Raises:
        DesignError: it has no "=".
    """
    rule, equals, reason = text.partition("=")
    if not equals:
        raise DesignError(f"--waive {text!r} says no reason; write --waive {text}='why'")
    return Waiver(rule.strip(), reason.strip(), "--waive")


def _same_target(written: str, folder: Path, target: str) -> bool:
    (place, name), (asked, asked_name) = split_target(written), split_target(target)
    if place.endswith(".py") and asked.endswith(".py"):
        return (folder / place).resolve() == Path(asked).resolve() and name == asked_name
    return (place, name) == (asked, asked_name)


def waivers_for(report: Report, table: dict[str, Any], folder: Path) -> list[Waiver]:
    """What applies to one report: entries of the table, and comments in its file (those on its own class, to all of it)."""
    found = table_waivers(table, folder, report)
    file, line = place_of(report.where)
    if file and Path(file).suffix == ".py" and Path(file).is_file():
        with contextlib.suppress(SyntaxError, tokenize.TokenError, UnicodeDecodeError):
            for waiver in comment_waivers(Path(file)):
                own = waiver.lines is not None and line is not None and line == waiver.lines.start
                found.append(replace(waiver, lines=None) if own else waiver)
    return found


def place_of(where: str | None) -> tuple[str | None, int | None]:
    """ "a/b.py:12" -> ("a/b.py", 12); (None, None) for anything else."""
    file, _, line = (where or "").rpartition(":")
    return (file, int(line)) if file and line.isdigit() else (None, None)


def apply(report: Report, waivers: Sequence[Waiver], known: Sequence[str]) -> set[Waiver]:
    """Set aside the findings that are waived; waivers without a reason, of no rule, or of a rule that passed become errors.

    Args:
        report: changed in place.
        known: the codes of all rules.

    Returns:
        The waivers that set something aside.
    """
    used = set()
    for waiver in waivers:
        elsewhere = waiver.lines is not None
        if elsewhere and (waiver.rule not in known or not waiver.reason):
            continue  # judged where its own class is the target
        if waiver.rule not in known:
            report.findings.append(unused(waiver, f"{waiver.rule} is the code of no rule"))
        elif not waiver.reason:
            report.findings.append(_without_reason(waiver))
        elif set_aside(report, waiver.covers, waiver.reason):
            used.add(waiver)
        elif waiver.place != "--waive" and not elsewhere and passed(report, waiver.rule):
            report.findings.append(unused(waiver, f"{waiver.rule} passes"))
    return used


def set_aside(report: Report, chosen: Any, why: str) -> int:
    """Move the chosen findings to `report.waived`; a rule with none left counts as "waived". Returns how many moved."""
    moved = [f for f in report.findings if chosen(f)]
    report.findings = [f for f in report.findings if not chosen(f)]
    report.waived += [replace(f, waived=why) for f in moved]
    for outcome in report.outcomes:
        if outcome.rule in {f.rule for f in moved} - {f.rule for f in report.findings}:
            outcome.result = "waived"
    return len(moved)


def passed(report: Report, rule: str) -> bool:
    return any(o.rule == rule and o.result == "passed" for o in report.outcomes)


def unused(waiver: Waiver, because: str) -> Finding:
    message = f"The waiver of {waiver.rule} at {waiver.place} excuses nothing: {because}."
    where = f"{waiver.file}:{waiver.place.rpartition(':')[2]}" if waiver.file else waiver.place
    return Finding("ATT002", "waiver_unused", "error", message, where=where, fix="Delete the waiver.")


def _without_reason(waiver: Waiver) -> Finding:
    message = f"The waiver of {waiver.rule} at {waiver.place} gives no reason, so it does not count."
    where = f"{waiver.file}:{waiver.place.rpartition(':')[2]}" if waiver.file else waiver.place
    return Finding("ATT001", "waiver_without_reason", "error", message, where=where, fix="Say why after the bracket.")
