"""What a child process left behind, turned into a report: its own if it sent one, else how and where it ended."""

from __future__ import annotations

import re
import signal
from pathlib import Path
from typing import Any

from regard.checks.child import size
from regard.checks.report import Report

FRAME = re.compile(r'^  File "(?P<file>.+)", line (?P<line>\d+) in (?P<name>\S+)', re.MULTILINE)
OURS = str(Path(__file__).parents[1])
QUOTED = 300  # characters of what a target printed


def report_of(target: str, answer: dict[str, Any], job: dict[str, Any]) -> Report:
    """The report of one child.

    Args:
        answer: messages, trace, printed, printed_bytes, status (exit code, or minus the signal), late.
        job: for the limits that are named.
    """
    sent = [m["report"] for m in answer["messages"] if "report" in m]
    if sent:
        report = Report.from_dict(sent[0])
    else:
        stages = [m["stage"] for m in answer["messages"] if "stage" in m]
        status = "not-exercised" if "check" in stages else "not-loaded"
        report = Report(target, status, ending(answer, job) + place(answer["trace"], target))
    if answer["printed_bytes"]:
        report.notes.append(_printed(answer))
    return report


def ending(answer: dict[str, Any], job: dict[str, Any]) -> str:
    """How the process ended, in words."""
    status, trace = answer["status"], answer["trace"]
    left = re.search(r"os\._exit\((-?\d+)\)", trace)
    if answer["late"]:
        return f"stopped after {job['timeout']:g} s (--timeout)"
    if left:
        return f"it calls os._exit({left[1]})"
    if status == -getattr(signal, "SIGKILL", 9):
        return f"killed by the system, as when memory runs out (its limit was {size(job['memory'])})"
    if status == -getattr(signal, "SIGXCPU", 24):
        return "stopped after using up its processor time"
    if status < 0:
        return f"it crashed the interpreter ({signal.Signals(-status).name})"
    return f"its process ended with status {status} before there was a report"


def place(trace: str, target: str) -> str:
    """The deepest frame of the target's own file, else the deepest one that is neither ours nor torch's; "" if none is."""
    frames = [(m["file"], m["line"], m["name"]) for m in FRAME.finditer(trace)]  # most recent call first
    file = target.rpartition(":")[0]
    own = [f for f in frames if file.endswith(".py") and Path(f[0]).resolve() == Path(file).resolve()]
    others = [
        f for f in frames if not f[0].startswith((OURS, "<")) and not re.search(r"[/\\](torch|runpy|threading)\b", f[0])
    ]
    for found in own or others:
        return f" at {_short(found[0])}:{found[1]} in {found[2]}"
    return ""


def _short(file: str) -> str:
    try:
        return str(Path(file).relative_to(Path.cwd()))
    except ValueError:
        return file


def _printed(answer: dict[str, Any]) -> str:
    text = answer["printed"].strip()
    quoted = text if len(text) <= QUOTED else text[:QUOTED] + " ..."
    return f"it printed {answer['printed_bytes']:,} bytes, kept out of the results: {quoted}"
