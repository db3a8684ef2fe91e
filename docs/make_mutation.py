"""What the checker notices of small mistakes in our own code: a page out of stored results and a word on every survivor.

    scripts/mutants --all --results docs/mutation/results.jsonl    # hours of one core; goes on where it stopped
    python docs/make_mutation.py print                             # the table, and the survivors that have no word yet
    python docs/make_mutation.py page                              # writes docs/mutation.md

Words stand in docs/mutation/reasons.toml, under "module:line [operator] what", and for a whole file under its module.
"""

from __future__ import annotations

import collections
import json
import re
import sys
from pathlib import Path
from typing import NamedTuple

import tomllib

HERE = Path(__file__).parent / "mutation"
RESULTS, REASONS = HERE / "results.jsonl", HERE / "reasons.toml"
KINDS = ("caught", "loud", "unseen", "asked", "survived", "equal", "not reached")


class Tried(NamedTuple):
    """One mutant and what became of it."""

    module: str
    line: int
    change: str  # "[operator] what"
    result: str
    why: str

    @property
    def key(self) -> str:
        return f"{self.module}:{self.line} {self.change}"


def tried() -> list[Tried]:
    out = []
    for text in RESULTS.read_text(encoding="utf-8").splitlines():
        name, (result, why) = json.loads(text)
        module, line, change = re.fullmatch(r"([\w.]+):(\d+) (.*)", name).groups()
        out.append(Tried(module, int(line), change, result, why))
    return sorted(out)


def words() -> dict[str, str]:
    return tomllib.loads(REASONS.read_text(encoding="utf-8")) if REASONS.is_file() else {}


def table(mutants: list[Tried]) -> list[str]:
    """A row per file and one for all."""
    rows = collections.defaultdict(collections.Counter)
    for mutant in mutants:
        for name in (mutant.module, "all"):
            rows[name][mutant.result] += 1
    lines = [f"| file | mutants | {' | '.join(KINDS)} |", "|---" * (len(KINDS) + 2) + "|"]
    for name in [*sorted(set(rows) - {"all"}), "all"]:
        counts = rows[name]
        lines.append(
            f"| {name.removeprefix('regard.')} | {counts.total()} | {' | '.join(str(counts[k] or '') for k in KINDS)} |"
        )
    return lines


def shares(mutants: list[Tried]) -> list[str]:
    count = collections.Counter(m.result for m in mutants)
    ran = count.total() - count["not reached"]
    other = ran - count["equal"]
    silent = other - count["loud"]
    noticed = count["caught"] + count["unseen"] + count["asked"]
    return [
        f"{count.total()} mutants; {count['not reached']} on lines that no call of the checker runs; of the other {ran}, {count['equal']} give the"
        " same numbers in every call that the checker makes.",
        f"Of the {other} that make a difference: {count['loud']} loud, {count['caught']} caught by a rule, {count['unseen']} no longer exercised,"
        f" {count['asked']} asked about, {count['survived']} survived: {(other - count['survived']) / max(other, 1):.0%} do not pass in silence.",
        f"Of the {silent} that run and give other numbers, {count['caught'] / max(silent, 1):.0%} are caught by a rule and"
        f" {noticed / max(silent, 1):.0%} change the report.",
    ]


def survivors(mutants: list[Tried], result: str) -> list[str]:
    said = words()
    lines = ["| mutant | what differs | why no rule says it |", "|---|---|---|"]
    for m in mutants:
        if m.result == result:
            change = m.change.replace("|", "\\|")
            lines.append(
                f"| `{m.module.removeprefix('regard.')}:{m.line}` {change} | {m.why} | {said.get(m.key, '**no word yet**')} |"
            )
    return lines


def equal(mutants: list[Tried]) -> list[str]:
    """By file, the mutants that change no number, with the word where one is written."""
    said, lines = words(), []
    for module in sorted({m.module for m in mutants if m.result == "equal"}):
        lines.append(f"\n**{module.removeprefix('regard.')}**: {said.get(module, '**no word yet**')}\n")
        lines += [
            f"- {m.line} {m.change}" + (f": {said[m.key]}" if m.key in said else "")
            for m in mutants
            if m.module == module and m.result == "equal"
        ]
    return lines


def page(mutants: list[Tried]) -> str:
    parts = [
        (HERE / "introduction.txt").read_text(encoding="utf-8").strip(),
        "## The share\n\n" + "\n".join(f"- {line}" for line in shares(mutants)),
        "\n".join(table(mutants)),
        "## Survivors\n\nOther numbers came out in a call of the checker, or another call ran, and no rule said anything.\n\n"
        + "\n".join(survivors(mutants, "survived")),
        "## Asked about\n\n" + "\n".join(survivors(mutants, "asked")),
        "## Equal\n\nNo call that the checker makes gives another number, so no relation between outputs can tell.\n"
        + "\n".join(equal(mutants)),
    ]
    return "\n\n".join(parts) + "\n"


def main(what: str) -> int:
    mutants = tried()
    if what == "page":
        (HERE.parent / "mutation.md").write_text(page(mutants), encoding="utf-8")
        return 0
    print("\n".join([*shares(mutants), "", *table(mutants)]))
    said = words()
    silent = [m for m in mutants if m.result in ("survived", "asked") and m.key not in said]
    print("\n".join(["", f"{len(silent)} without a word:", *(f"{m.result} {m.key} | {m.why}" for m in silent)]))
    return 1 if silent else 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
