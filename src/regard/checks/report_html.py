"""The report as a piece of HTML for notebooks: no script, no outside file, everything escaped."""

from __future__ import annotations

from html import escape

from regard.checks.report import Finding, Report

COLOUR = {"error": "#b00020", "warning": "#8a5a00", "question": "#00627a"}


def report_html(report: Report) -> str:
    """A heading with the verdict in words, a table per finding, what was not exercised, and the counts."""
    counts = report.counts
    if report.status != "checked":
        head, body = "NOT CHECKED", f"<p>{escape(report.reason)}</p>"
    else:
        head = "ok" if report.ok else f"{len(report.errors)} error{'s' * (len(report.errors) != 1)}"
        body = "".join(_finding(f) for f in report.findings)
    missed = [o for o in report.outcomes if o.result == "not-exercised"]
    rows = "".join(f"<li>{escape(o.rule)} {escape(o.name)}: {escape(o.reason)}</li>" for o in missed)
    left_out = f"<details><summary>{len(missed)} not exercised</summary><ul>{rows}</ul></details>" if missed else ""
    notes = "".join(f"<p><small>{escape(note)}</small></p>" for note in report.notes)
    numbers = ", ".join(f"{counts[key]} {key.replace('_', ' ')}" for key in counts)
    return f"<div><p><b>{escape(head)}</b> &middot; <code>{escape(report.target)}</code></p>{body}{left_out}{notes}<p>{numbers}</p></div>"


def _finding(finding: Finding) -> str:
    measured = None if finding.measured is None else f"{finding.measured} (allowed {finding.allowed})"
    rows = [
        ("input", finding.example, False),
        ("measured", measured, False),
        ("where", finding.where, True),
        ("cause", finding.cause, False),
        ("fix", finding.fix, False),
        ("diff", finding.diff, True),
        ("script", finding.script, True),
    ]
    cells = "".join(_row(label, str(value), code) for label, value, code in rows if value)
    head = f"<b style='color:{COLOUR[finding.level]}'>{finding.level}</b> {escape(finding.rule)} {escape(finding.name)}"
    return f"<p>{head}<br>{escape(finding.message)}</p><table>{cells}</table>"


def _row(label: str, value: str, code: bool) -> str:
    text = f"<pre style='margin:0'>{escape(value)}</pre>" if code else escape(value)
    return (
        f"<tr><th style='text-align:left;vertical-align:top'>{label}</th><td style='text-align:left'>{text}</td></tr>"
    )
