"""The overview: one number per head, layers down and heads across.

Axes: L layers, H heads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize

from regard.views.arrays import as_array, check_labels
from regard.views.canvas import SEQUENTIAL, axes, colour_bar, words
from regard.views.fonts import readable
from regard.views.plots.one_head import draw_map
from regard.views.ticks import token_ticks

DIGITS_NEED = 2.4  # a cell holds its number when it is this many times the font size wide


def overview(
    scores: Any,
    *,
    name: str,
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    limits: tuple[float, float] | None = None,
    title: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw any score of all heads; the numbers are written where cells have room.

    Args:
        scores: (L, H). NaN where a layer has no such head: drawn grey.
        name: What the number is and its unit, for the colour bar.
        layers, heads: Their numbers; None counts from 0.
        limits: Ends of the colour scale; None is the range of the scores.
        ax: Where to draw; None makes a figure.

    Raises:
        ShapeError: `scores` is not 2-D or the numbers of layers or heads do not fit.
    """
    values = as_array(scores, "L H").astype(np.float64)
    rows = [str(n) for n in (range(values.shape[0]) if layers is None else layers)]
    columns = [str(n) for n in (range(values.shape[1]) if heads is None else heads)]
    check_labels(rows, values.shape[0], "layer")
    check_labels(columns, values.shape[1], "head")
    finite = values[np.isfinite(values)]
    low, high = limits or ((finite.min(), finite.max()) if finite.size else (0.0, 1.0))
    with readable():
        ax = axes(ax, 1.9 + 0.42 * min(values.shape[1], 24), 1.3 + 0.36 * min(values.shape[0], 24))
        norm = Normalize(low, high if high > low else low + 1)
        image = draw_map(ax, values, None, values.shape, norm, SEQUENTIAL)  # type: ignore[arg-type]
        token_ticks(ax, "y", rows, len(rows), ordered=False)
        token_ticks(ax, "x", columns, len(columns), ordered=False)
        ax.tick_params(axis="x", labelrotation=0)
        colour_bar(ax, image, name)
        words(ax, title=title, x="head", y="layer")
        write_numbers(ax, values, norm)
    return ax


def write_numbers(ax: Axes, values: np.ndarray, norm: Normalize, size: float = 7) -> None:
    """Write two digits into each cell, or into none when a cell is too small for them."""
    box = ax.get_window_extent()
    pixels = size / 72 * ax.figure.dpi
    if box.width / values.shape[1] < DIGITS_NEED * pixels or box.height / values.shape[0] < 1.3 * pixels:
        return
    for (row, column), value in np.ndenumerate(values):
        if np.isfinite(value):
            colour = "black" if norm(value) > 0.55 else "white"
            ax.text(column, row, short_number(value), ha="center", va="center", fontsize=size, color=colour)


def short_number(value: float) -> str:
    """At most four characters.

    >>> [short_number(v) for v in (0.1234, -0.5, 3.14159, 271.8, 0.0)]
    ['.12', '-.50', '3.1', '272', '0']
    """
    if value == 0:
        return "0"
    if abs(value) < 0.995:
        return f"{value:.2f}".replace("0.", ".", 1)
    return f"{value:.1f}" if abs(value) < 10 else f"{value:.0f}"
