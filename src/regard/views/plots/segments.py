"""Where attention flows between the parts of a long input: system, user, document, tool, image.

Axes: G segments of queries, K segments of keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import PathPatch
from matplotlib.path import Path

from regard.core.errors import ShapeError
from regard.views.arrays import as_array, check_labels
from regard.views.canvas import axes, bare, words
from regard.views.fonts import drawable, families, readable
from regard.views.plots.by_distance import COLOURS

MOST, GAP, LEFT, RIGHT = 16, 0.02, 0.3, 0.7
SHOWN = 0.02  # a flow of a smaller share is drawn and not labelled


def segment_flow(
    mass: Any,
    segments: Sequence[str],
    *,
    key_segments: Sequence[str] | None = None,
    title: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw bands from each segment of queries (left) to the segments of keys it attends to (right); a band's width is the mass.

    Args:
        mass: (G, K): the mean mass that a query of segment g gives to segment k; a row sums to 1 (or less, with a sink).
        segments: G names; `key_segments`: K names where they differ. At most 16 each.
        ax: Where to draw; None makes a figure.

    Raises:
        ShapeError: `mass` is not 2-D, has more than 16 segments, a negative entry, or names that do not fit.
    """
    values = as_array(mass, "G K").astype(np.float64)
    keys = segments if key_segments is None else key_segments
    check_labels(segments, values.shape[0], "query segment")
    check_labels(keys, values.shape[1], "key segment")
    if max(values.shape) > MOST:
        raise ShapeError(f"{max(values.shape)} segments cannot be told apart as bands; join them to at most {MOST}")
    if values.min() < 0:
        raise ShapeError(f"a mass is not negative; the smallest is {values.min():.3g}")
    with readable():
        ax = bare(axes(ax, 6.4, 1.2 + 0.5 * max(values.shape)))
        ax.set(xlim=(0, 1), ylim=(1.02, -0.06))
        draw_bands(ax, values, segments, keys)
        if title is not None:
            words(ax, title=title)
    return ax


def draw_bands(ax: Axes, values: np.ndarray, queries: Sequence[str], keys: Sequence[str]) -> None:
    """Both columns of blocks, their names and shares, and the bands between them."""
    scale = (1 - GAP * (max(values.shape) - 1)) / max(values.sum(), 1e-12)
    left = _starts(values.sum(1) * scale)
    right = _starts(values.sum(0) * scale)
    _blocks(ax, left, values.sum(1) * scale, queries, LEFT, [f"{n}" for n in queries])
    received = values.sum(0) / max(values.sum(), 1e-12)
    _blocks(ax, right, values.sum(0) * scale, keys, RIGHT, [f"{n}  {share:.0%}" for n, share in zip(keys, received)])
    at_left, at_right = left.copy(), right.copy()
    for g, k in np.ndindex(*values.shape):
        high = values[g, k] * scale
        if high > 0:
            _band(ax, at_left[g], at_right[k], high, COLOURS[g % len(COLOURS)])
            if values[g, k] / max(values[g].sum(), 1e-12) >= SHOWN and high > 0.035:
                ax.text(LEFT + 0.02, at_left[g] + high / 2, f"{values[g, k]:.0%}", fontsize=7, va="center")
        at_left[g] += high
        at_right[k] += high
    ax.text(LEFT, -0.03, "query segments", ha="right", fontsize=8)
    ax.text(RIGHT, -0.03, "key segments, share received", ha="left", fontsize=8)


def _starts(heights: np.ndarray) -> np.ndarray:
    total = heights.sum() + GAP * (len(heights) - 1)
    return (1 - total) / 2 + np.append(0, np.cumsum(heights[:-1] + GAP))


def _blocks(
    ax: Axes, starts: np.ndarray, heights: np.ndarray, names: Sequence[str], x: float, labels: list[str]
) -> None:
    left = x == LEFT
    centres = _spread(starts + heights / 2, 0.055)
    for place, (start, high, centre) in enumerate(zip(starts, heights, centres)):
        colour = COLOURS[place % len(COLOURS)] if left else "#6a6a78"
        ax.add_patch(PathPatch(_box(x - 0.012 if left else x, start, 0.012, high), facecolor=colour, linewidth=0))
        side = (x - 0.025, "right") if left else (x + 0.025, "left")
        text = drawable(labels[place], 26)
        ax.text(side[0], centre, text, ha=side[1], va="center", fontsize=8, fontfamily=families())


def _spread(centres: np.ndarray, least: float) -> np.ndarray:
    """Move label centres down where two would overlap, then all up by what overflows."""
    out = centres.copy()
    for i in range(1, len(out)):
        out[i] = max(out[i], out[i - 1] + least)
    return out - max(0.0, out[-1] - max(1.0, centres[-1]))


def _box(x: float, y: float, wide: float, high: float) -> Path:
    return Path([(x, y), (x + wide, y), (x + wide, y + high), (x, y + high), (x, y)], closed=True)


def _band(ax: Axes, y0: float, y1: float, high: float, colour: str) -> None:
    bend = (LEFT + RIGHT) / 2
    corners = [(LEFT, y0), (bend, y0), (bend, y1), (RIGHT, y1), (RIGHT, y1 + high)]
    corners += [(bend, y1 + high), (bend, y0 + high), (LEFT, y0 + high), (LEFT, y0)]
    c = Path.CURVE4
    codes = [Path.MOVETO, c, c, c, Path.LINETO, c, c, c, Path.CLOSEPOLY]
    ax.add_patch(PathPatch(Path(corners, codes), facecolor=colour, alpha=0.35, linewidth=0))
