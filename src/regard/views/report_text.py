"""The report as text: readable at 80 columns, without colour, and never green where nothing was exercised."""

from __future__ import annotations

import linecache
import os
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from regard.checks.report import Finding, Report
from regard.checks.waivers import place_of

FEW_REASONS = 3  # more reasons than this are folded into one line
STYLE = {"error": "bold red", "warning": "yellow", "question": "cyan"}
WIDEST = 100  # columns: longer lines are hard to read
LABEL = 12
SHORT = {"random_in_eval": "random eval", "moved_parameters": "moved"}


def write_report(report: Report, console: Console) -> None:
    """One target: its verdict in a line, its findings, what was not exercised, its counts."""
    if report.status != "checked":
        console.print(Text(f"NOT CHECKED  {report.target}", style="bold magenta"), soft_wrap=True)
        _block(console, "reason", report.reason)
        _notes(console, report)
        console.print()
        return
    _verdict(console, report)
    for finding in sorted(report.findings, key=lambda f: ("error", "warning", "question").index(f.level)):
        write_finding(finding, report, console)
    if report.findings:
        console.print()
    for finding in report.waived:
        _block(console, "waived", f"{finding.rule} {finding.name}: {finding.waived}")
    _write_not_exercised(console, _not_exercised(report))
    _notes(console, report)
    _block(console, "counts", counts_text(report))
    console.print()


def write_summary(reports: Sequence[Report], console: Console, durations: int = 0) -> None:
    """All targets together: counts, what was not exercised, and the slowest rules if asked."""
    if durations:
        _durations(reports, console, durations)
    missed = [r for r in reports if r.status != "checked"]
    if missed and len(reports) > 1:
        console.print(Text(f"Not checked: {len(missed)} of {len(reports)} targets", style="bold magenta"))
        for report in missed:
            _block(console, "", f"{report.target}: {report.reason}")
        console.print()
    levels = [f.level for r in reports for f in r.findings]
    targets = (
        f"{len(reports)} target{'s' * (len(reports) != 1)}, {len(reports) - len(missed)} checked, {len(missed)} not"
    )
    found = ", ".join(_plural(levels.count(level), level) for level in STYLE)
    waived = sum(len(r.waived) for r in reports)
    style = "bold red" if "error" in levels else "bold magenta" if missed else "bold green"
    console.print(Text(f"{targets}: {found}{f', {waived} waived' if waived else ''}", style=style))


def write_inferred(report: Report, console: Console) -> None:
    """What `regard explain` prints: how the target was built and called, and what could not be found out."""
    mark, style = ("CALLED", "bold green") if report.status == "checked" else ("NOT CALLED", "bold magenta")
    console.print(Text.assemble((f"{mark}  ", style), (report.target, "bold")), soft_wrap=True)
    _block(console, "reason", report.reason)
    _verbatim(console, "defined", shown(report.where))
    _block(console, "call", call_text(report.inferred))
    for name, value in report.inferred.items():
        if name != "inputs":
            _block(console, SHORT.get(name, name.replace("_", " ")), _said(value))
    for note in report.notes:
        _block(console, "note", note)


def shown(where: str | None) -> str | None:
    """A place with its path from the current folder, where it lies inside."""
    file, line = place_of(where)
    return f"{relative(file)}:{line}" if file else where


def relative(file: str) -> str:
    """The path from the current folder with forward slashes; as it is where it lies outside."""
    try:
        near = os.path.relpath(file)
    except ValueError:  # another drive
        near = ".."
    return Path(file if near.startswith("..") else near).as_posix()


def call_text(inferred: dict[str, Any]) -> str:
    """ "query=x (3, 7, 32) BLD, key=x, value=x" from the inputs that were inferred; "" where none were."""
    parts, seen = [], set()
    for name, source in (inferred.get("inputs") or {}).items():
        tensor = source.get("source", "?") if isinstance(source, dict) else str(source)
        parts.append(f"{name}={tensor}")
        if isinstance(source, dict) and tensor not in seen:
            seen.add(tensor)
            parts[-1] += f" {tuple(source.get('shape', ()))} {source.get('layout', '')}".rstrip()
    return ", ".join(parts)


def _said(value: Any) -> str:
    """A value of `inferred` in words; what was looked for and not found is said too."""
    if value is None or value == [] or value == {}:
        return "none found"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{k}={_said(v) if isinstance(v, dict | list | bool) else v}" for k, v in value.items())
    if isinstance(value, list | tuple) and all(isinstance(v, int | float) for v in value):
        return f"({', '.join(map(str, value))})"
    if isinstance(value, list):
        return "; ".join(_said(v) for v in value)
    return str(value)


def counts_text(report: Report) -> str:
    """ "14 checks: 11 passed, 1 failed, 1 question, 1 not exercised" """
    counts = report.counts
    waived = sum(o.result == "waived" for o in report.outcomes)
    parts = [f"{counts['passed']} passed", f"{counts['failed']} failed", _plural(counts["questions"], "question")]
    parts += [f"{counts['not_exercised']} not exercised"] + [f"{waived} waived"] * bool(waived)
    return f"{_plural(counts['checks'], 'check')}: {', '.join(parts)}"


def _plural(count: int, word: str) -> str:
    return f"{count} {word}{'s' * (count != 1)}"


def _verdict(console: Console, report: Report) -> None:
    levels = [f.level for f in report.findings]
    said = next((level for level in STYLE if level in levels), None)
    if said:
        mark, style = said.upper(), STYLE[said]
    elif not report.counts["passed"]:
        mark, style = "NOTHING PASSED", "bold magenta"
    else:
        mark, style = "ok", "bold green"
    seconds = (f"  ({report.seconds:.1f} s)", "dim")
    console.print(Text.assemble((f"{mark}  ", style), (report.target, "bold"), seconds), soft_wrap=True)


def write_finding(finding: Finding, report: Report, console: Console) -> None:
    """One finding: what happened, the smallest input, the numbers, the line, the cause, the fix, a script."""
    console.print()
    head = Text.assemble("  ", (finding.level.upper(), STYLE[finding.level]), f"  {finding.rule} {finding.name}")
    console.print(head, soft_wrap=True)
    _block(console, "", finding.message, indent=4)
    _block(console, "input", finding.example)
    if finding.measured is not None:
        allowed = f", allowed {number(finding.allowed)}" if finding.allowed is not None else ""
        _block(console, "measured", f"{number(finding.measured)}{allowed}")
    _block(console, "call", call_text(report.inferred))
    _source_line(console, finding.where)
    _block(console, "cause", finding.cause)
    _block(console, "fix", finding.fix)
    _verbatim(console, "diff", finding.diff)
    _verbatim(console, "script", finding.script)
    _block(console, "more", f"regard rule {finding.rule}")


def number(value: Any) -> str:
    """Three significant digits; texts as they are."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _source_line(console: Console, where: str | None) -> None:
    """The user's line with its number; the bare place where the line cannot be read."""
    if not where:
        return
    file, line = place_of(where)
    text = linecache.getline(file, line).strip() if file and line else ""
    _verbatim(console, "where", shown(where))
    if text:
        _verbatim(console, "", f"{line} | {text}")


def _not_exercised(report: Report) -> dict[str, list[str]]:
    """Reason -> rules, in the order of rules."""
    by_reason: dict[str, list[str]] = defaultdict(list)
    for outcome in report.outcomes:
        if outcome.result == "not-exercised":
            by_reason[outcome.reason].append(outcome.rule)
    return by_reason


def _write_not_exercised(console: Console, groups: dict[str, list[str]]) -> None:
    """Every group while they are few; else the largest ones and how many rules the rest are."""
    if len(groups) <= FEW_REASONS:
        for reason, rules in groups.items():
            _block(console, "not run", f"{', '.join(rules)}: {reason}" if reason else ", ".join(rules))
        return
    ranked = sorted(groups.items(), key=lambda item: -len(item[1]))[:FEW_REASONS]
    total = sum(len(rules) for rules in groups.values())
    rest = total - sum(len(rules) for _, rules in ranked)
    shown = "; ".join(f"{len(rules)}: {reason}" for reason, rules in ranked)
    _block(console, "not run", f"{total} rules. {shown}; {rest} for other reasons (--format json lists each)")


def _notes(console: Console, report: Report) -> None:
    for note in report.notes:
        first, *rest = note.splitlines()
        _block(console, "note", first)
        _verbatim(console, "", "\n".join(rest))


def _durations(reports: Sequence[Report], console: Console, most: int) -> None:
    timed = sorted(((o.seconds, o.rule, o.name, r.target) for r in reports for o in r.outcomes), reverse=True)
    console.print(Text(f"Slowest {min(most, len(timed))} of {len(timed)} checks"))
    for seconds, rule, name, target in timed[:most]:
        console.print(Text(f"  {seconds:7.3f} s  {rule} {name}  {target}"), soft_wrap=True)
    console.print()


def _block(console: Console, label: str, text: Any, *, indent: int = 4 + LABEL) -> None:
    """A labelled paragraph, wrapped with a hanging indent; nothing where there is no text."""
    if not text:
        return
    width = min(console.width, WIDEST) - indent
    lines = Text(str(text)).wrap(console, max(width, 20))
    for i, line in enumerate(lines):
        head = f"    {label}" if i == 0 and label else ""
        console.print(Text.assemble((head.ljust(indent), "dim"), line.plain.rstrip()), soft_wrap=True)


def _verbatim(console: Console, label: str, text: str | None) -> None:
    """Code: never wrapped, so that it can be copied."""
    for i, line in enumerate((text or "").rstrip().splitlines()):
        head = f"    {label}" if i == 0 and label else ""
        style = {"+": "green", "-": "red"}.get(line[:1], "") if label == "diff" else ""
        console.print(Text.assemble((head.ljust(4 + LABEL), "dim"), (line, style)), soft_wrap=True)
