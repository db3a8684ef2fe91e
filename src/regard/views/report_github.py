"""The reports as GitHub workflow commands: each finding becomes an annotation at the user's line."""

from __future__ import annotations

from collections.abc import Sequence

from regard.checks.report import Report
from regard.checks.waivers import place_of
from regard.views.report_text import counts_text, number, relative

COMMAND = {"error": "error", "warning": "warning", "question": "notice"}


def render(reports: Sequence[Report]) -> str:
    """One line per finding and per target that was not checked, then the counts of each target."""
    lines = []
    for report in reports:
        if report.status != "checked":
            lines.append(_command("warning", report.where, f"{report.target} not checked", report.reason))
        for f in report.findings:
            numbers = f" (measured {number(f.measured)}, allowed {number(f.allowed)})" if f.measured is not None else ""
            text = "\n".join(part for part in (f.message + numbers, f.cause, f.fix, f"regard rule {f.rule}") if part)
            lines.append(_command(COMMAND[f.level], f.where or report.where, f"{f.rule} {f.name}", text))
        lines.append(
            f"{report.target}: {counts_text(report)}" if report.status == "checked" else f"{report.target}: not checked"
        )
    return "".join(line + "\n" for line in lines)


def _command(kind: str, where: str | None, title: str, text: str) -> str:
    file, line = place_of(where)
    at = f"file={_property(relative(file))},line={line}," if file else ""
    return f"::{kind} {at}title={_property(title)}::{_data(text)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
