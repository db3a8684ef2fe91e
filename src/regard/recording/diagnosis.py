"""What is wrong with a training run: symptoms, their likely causes in order, and the check that would confirm each.

Plain data and its two forms, text at 80 columns and JSON; nothing here imports torch. The rules are in `diagnosis_rules`.
"""

from __future__ import annotations

import os
import textwrap
from dataclasses import dataclass, field
from typing import Any

WIDTH = 80


@dataclass(frozen=True)
class Cause:
    """One possible cause. kind: the checker's name of the fault, "" where it has none."""

    text: str
    check: str  # a command, a line of Python, or what to look at
    kind: str = ""


@dataclass
class Symptom:
    """One thing that is wrong: what was seen, since when, where, in numbers, and why that may be."""

    name: str
    title: str
    step: int
    causes: list[Cause]
    layers: list[int] = field(default_factory=list)
    where: str = ""
    measured: dict[str, Any] = field(default_factory=dict)

    def json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "title": self.title,
            "step": self.step,
            "layers": self.layers,
            "where": self.where,
            "measured": self.measured,
            "causes": [{"text": c.text, "check": c.check, "kind": c.kind} for c in self.causes],
        }

    def lines(self, number: int) -> list[str]:
        lines = _wrapped(f"{number}. ", f"{self.title} [{self.name}]")
        if self.where:
            lines.append(f"   at {_here(self.where)}")
        if self.measured:
            lines += _wrapped("   measured: ", ", ".join(f"{k} {_short(v)}" for k, v in self.measured.items()))
        for at, cause in enumerate(self.causes):
            lead = "   likely cause: " if at == 0 else "   or: "
            lines += _wrapped(lead, cause.text + (f" ({cause.kind})" if cause.kind else ""))
            lines += _wrapped("      check: ", cause.check)
        return lines


@dataclass
class Diagnosis:
    """All symptoms of a run, the gravest first. False where there are none.

    >>> print(Diagnosis([], 4, 200, 2))
    4 records of 2 attention layers, 200 steps: nothing found.
    """

    symptoms: list[Symptom]
    records: int
    steps: int
    layers: int
    notes: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.symptoms)

    def __str__(self) -> str:
        return self.text()

    def names(self) -> list[str]:
        """The names of the symptoms."""
        return [s.name for s in self.symptoms]

    def kinds(self) -> list[str]:
        """The kind of each symptom's first cause."""
        return [s.causes[0].kind for s in self.symptoms if s.causes]

    def text(self) -> str:
        """For people, at most 80 columns."""
        found = f"{len(self.symptoms)} found" if self.symptoms else "nothing found"
        lines = [
            f"{_count(self.records, 'record')} of {_count(self.layers, 'attention layer')}, "
            f"{_count(self.steps, 'step')}: {found}."
        ]
        for note in self.notes:
            lines += _wrapped("note: ", note)
        for number, symptom in enumerate(self.symptoms, 1):
            lines += ["", *symptom.lines(number)]
        return "\n".join(lines)

    def json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "records": self.records,
            "steps": self.steps,
            "layers": self.layers,
            "notes": self.notes,
            "symptoms": [s.json() for s in self.symptoms],
        }


def _count(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"


def _wrapped(lead: str, text: str) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=lead, subsequent_indent=" " * min(len(lead), 9), break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip


def _here(where: str) -> str:
    """A file below the working directory by its relative path."""
    here = os.getcwd() + os.sep
    return where.removeprefix(here)


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
