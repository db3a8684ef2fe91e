"""What a code base is known to have: findings of an earlier run are set aside, and only what is new fails.

A baseline is the JSON report of that run: `regard check src --format json --out known.json`.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

from regard.checks.load import split_target
from regard.checks.report import Report
from regard.checks.waivers import set_aside
from regard.core.errors import DesignError

Known = Counter[tuple[str, str]]  # (target, rule) -> how many


def read(path: Path) -> Known:
    """The findings of an earlier report.

    Raises:
        DesignError: there is no such file, or it is not a JSON report.
    """
    way_out = f"write one with `regard check TARGET --format json --out {path}`"
    if not path.is_file():
        raise DesignError(f"there is no baseline {path}; {way_out}")
    try:
        reports = json.loads(path.read_text(encoding="utf-8"))
        return Counter((_normal(r["target"]), f["rule"]) for r in reports for f in r["findings"])
    except (ValueError, KeyError, TypeError) as error:
        raise DesignError(f"{path} is not a report of regard ({type(error).__name__}); {way_out}") from error


def apply(report: Report, known: Known, name: str) -> None:
    """Set aside as many findings per rule as the baseline has for this target; say how many of its findings are gone."""
    target = _normal(report.target)
    left = Counter({rule: count for (place, rule), count in known.items() if place == target})

    def is_known(finding) -> bool:
        left[finding.rule] -= 1
        return left[finding.rule] >= 0

    chosen = {id(f) for f in report.findings if is_known(f)}
    set_aside(report, lambda f: id(f) in chosen, f"known in {name}")
    gone = sum(count for count in left.values() if count > 0)
    if gone and report.status == "checked":
        report.notes.append(f"{gone} finding(s) of {name} are gone; write it anew so that they cannot come back")


def _normal(target: str) -> str:
    """The target with its path from the current folder, so that ./a.py:X and a.py:X are the same."""
    place, name = split_target(target)
    if not place.endswith(".py"):
        return target
    return f"{Path(os.path.relpath(place)).as_posix()}:{name}"
