"""How heads change while a model trains: one curve per layer from the rows that `watch` writes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from regard.core.errors import CaptureError
from regard.views.canvas import axes, clean, words
from regard.views.fonts import readable
from regard.views.plots.by_distance import draw_lines


def curves(
    rows: str | Path | Iterable[Mapping[str, Any]],
    score: str,
    *,
    by: str = "layer",
    step: str = "step",
    title: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw a score against the training step.

    Args:
        rows: A JSON-lines file, or mappings, each with `step`, `by` and the score: a number, or a list of one number per head (its
            mean is drawn). A row without the score is left out.
        score: Its name in a row.
        by: What one curve stands for; more than 8 become a median with a band.
        ax: Where to draw; None makes a figure.

    Raises:
        CaptureError: A line that is not JSON (its number is named), or no row has the score (the names that are there).
    """
    read = list(read_rows(rows)) if isinstance(rows, (str, Path)) else list(rows)
    points = [
        (str(r.get(by, "")), float(r[step]), _mean(r[score])) for r in read if r.get(score) is not None and step in r
    ]
    if not points:
        names = sorted({name for r in read for name in r})
        raise CaptureError(
            f"no row has {step!r} and {score!r}; the {len(read)} rows have: {', '.join(names) or 'nothing'}"
        )
    groups = list(dict.fromkeys(group for group, _, _ in points))
    steps = sorted({at for _, at, _ in points})
    column = {at: i for i, at in enumerate(steps)}
    values = np.full((len(groups), len(steps)), np.nan)
    for group, at, value in points:
        values[groups.index(group), column[at]] = value
    with readable():
        ax = axes(ax, 6.4, 3.6)
        names = [f"{by} {g}" if g.lstrip("-").isdigit() else g for g in groups]
        draw_lines(ax, np.asarray(steps), values, names)
        ax.tick_params(labelsize=8, length=2)
        clean(ax)
        words(ax, title=title, x=step, y=score.replace("_", " "))
    return ax


def read_rows(file: str | Path) -> Iterable[dict[str, Any]]:
    """The objects of a JSON-lines file. A last line that was cut off is left out; any other bad line is refused."""
    lines = Path(file).read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield json.loads(line)
        except json.JSONDecodeError as error:
            if number == len(lines):
                return
            raise CaptureError(f"{file}, line {number} is not JSON: {error.msg}") from error


def _mean(value: Any) -> float:
    numbers = np.asarray(value, dtype=float)
    return float(np.nanmean(numbers)) if np.isfinite(numbers).any() else float("nan")
