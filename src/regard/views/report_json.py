"""The reports as one JSON array, one object per target, in the order of targets; strict JSON (NaN is text)."""

from __future__ import annotations

import json
from collections.abc import Sequence

from regard.checks.plain import plain
from regard.checks.report import Report


def render(reports: Sequence[Report]) -> str:
    """The array that `--format json` prints; its schema stands in the reference pages."""
    return json.dumps([plain(r.to_dict()) for r in reports], indent=2, ensure_ascii=False, allow_nan=False) + "\n"
