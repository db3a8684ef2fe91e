"""All heads of one layer side by side, in one colour scale, so that heads can be told apart at a glance.

Axes: H heads, T queries, S keys.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from regard.views.arrays import Pool, as_array, check_labels, pool_map
from regard.views.canvas import SEQUENTIAL, axes, bare, colour_bar, words
from regard.views.fonts import readable
from regard.views.plots.one_head import Scale, draw_map, hidden_cells, norm_of
from regard.views.ticks import token_ticks

MOST_CELLS = 256  # a side of one panel


def head_grid(
    weights: Any,
    tokens: Sequence[str] | None = None,
    *,
    heads: Sequence[int] | None = None,
    allowed: Any = None,
    size: tuple[int, int] | None = None,
    columns: int | None = None,
    scale: Scale = "linear",
    pool: Pool = "mean",
    title: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw one panel per head.

    Args:
        weights: (H, T, S), of one sample and layer, or pooled maps with `size`.
        tokens: T texts, drawn at the outer panels where they fit.
        heads: H head numbers for the panel titles; None counts from 0.
        allowed, size, scale, pool: As in `heatmap`. The colour scale is shared by all panels.
        columns: Panels in a row; None is about square.
        ax: The area to divide; None makes a figure.

    Returns:
        The Axes that holds the panels; the panels are its `child_axes`, row by row (the last child is the colour bar).

    Raises:
        ShapeError: `weights` is not 3-D, or tokens, heads or `allowed` do not fit.
    """
    values = as_array(weights, "H T S")
    count = values.shape[0]
    queries, keys = size or values.shape[1:]
    check_labels(tokens, queries, "query")
    numbers = list(range(count)) if heads is None else list(heads)
    check_labels(numbers, count, "head")  # type: ignore[arg-type]
    drawn = [pool_map(head, MOST_CELLS, pool) for head in values]
    hidden = hidden_cells(allowed, values[0], *drawn[0][1:])
    norm = norm_of(np.stack([d[0] for d in drawn]), scale)
    columns = columns or math.ceil(math.sqrt(count))
    rows = math.ceil(count / columns)
    key_tokens = tokens if queries == keys else None
    with readable():
        ax = bare(axes(ax, 1.8 * columns + 1.2, 1.9 * rows + 0.6))
        for place, (panel, number) in enumerate(zip(panels(ax, rows, columns, count), numbers)):
            image = draw_map(panel, drawn[place][0], hidden, (queries, keys), norm, SEQUENTIAL)
            token_ticks(panel, "y", tokens, queries, size=6)
            token_ticks(panel, "x", key_tokens, keys, size=6)
            panel.tick_params(labelleft=place % columns == 0, labelbottom=place + columns >= count)
            words(panel, title=f"head {number}", size=7)
        colour_bar(ax, image, "weight")
        if title is not None:
            ax.set_axis_on()
            ax.set(xticks=[], yticks=[], facecolor="none")
            ax.spines[:].set_visible(False)
            words(ax, title=title)
            ax.title.set_position((0.5, 1.0))
    return ax


def panels(ax: Axes, rows: int, columns: int, count: int) -> list[Axes]:
    """`count` inset Axes in a grid with room for their titles, row by row."""
    wide, high = 1 / columns, 1 / rows
    return [
        ax.inset_axes((place % columns * wide, 1 - (place // columns + 1) * high, wide * 0.9, high * 0.8))
        for place in range(count)
    ]
