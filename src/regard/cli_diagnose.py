"""One run of `regard diagnose`: read the rows that `watch` wrote, print what is wrong; loads no torch."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from regard.core.errors import CaptureError

FORMATS = ("text", "json")


def diagnose_session(file: Path, against: Path | None, format: str) -> int:
    """Print the diagnosis; 1 if anything was found, else 0.

    Raises:
        CaptureError: No such file, a line that is not JSON, a file that `watch` did not write, or an unknown format.
    """
    from regard.recording.diagnosis_rules import diagnose

    if format not in FORMATS:
        raise CaptureError(f"--format {format!r} is not one of {', '.join(FORMATS)}")
    diagnosis = diagnose(_rows(file), None if against is None else _rows(against))
    typer.echo(json.dumps(diagnosis.json(), indent=2) if format == "json" else diagnosis.text())
    return 1 if diagnosis else 0


def _rows(file: Path) -> list[dict]:
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise CaptureError(f"{file} cannot be read: {getattr(error, 'strerror', None) or 'not a text file'}") from error
    rows = []
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            if number == len(lines) and rows:
                break  # the run is still writing, or was stopped in the middle of a line
            raise CaptureError(f"{file}, line {number} is not JSON: {error.msg}") from error
        if not isinstance(row, dict):
            raise CaptureError(f"{file}, line {number} is not an object")
        rows.append(row)
    if not rows or "watch" not in rows[0]:
        raise CaptureError(f"{file} does not begin with the line that regard.watch writes; give the file of its out=")
    return rows
