"""The heatmap of one head: queries down, keys across, pooled when there are more cells than pixels.

Axes: T queries, S keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.image import AxesImage

from regard.views.arrays import Pool, as_array, check_labels, pool_map
from regard.views.canvas import HIDDEN, SEQUENTIAL, axes, clean, colour_bar, words
from regard.views.fonts import readable
from regard.views.ticks import token_ticks

MOST_CELLS = 1024  # a side; more are pooled
Scale = Literal["linear", "log"]


def heatmap(
    weights: Any,
    tokens: Sequence[str] | None = None,
    *,
    key_tokens: Sequence[str] | None = None,
    allowed: Any = None,
    size: tuple[int, int] | None = None,
    scale: Scale = "linear",
    pool: Pool = "mean",
    title: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the attention weights of one head.

    Args:
        weights: (T, S), of one sample, layer and head; or a pooled map of it, with `size`.
        tokens: T texts, drawn where a cell has room for them; else round positions are drawn. For S = T they label the keys too.
        key_tokens: S texts, for cross-attention.
        allowed: (T, S) bool, True = may be attended to. The rest is drawn grey, which no weight is.
        size: (T, S) of the full map when `weights` is a pooled one (bins of equal width).
        scale: "log" spreads small weights; it ends at 1e-4 of the largest.
        pool: How cells are joined where the map has more than 1,024 a side: "mean", or "max", which keeps single peaks.
        ax: Where to draw; None makes a figure.

    Returns:
        The Axes. Position p on either axis is token p, whatever was pooled.

    Raises:
        ShapeError: `weights` is not 2-D and not empty, or labels or `allowed` do not fit it.
    """
    values = as_array(weights, "T S")
    queries, keys = size or values.shape
    key_tokens = tokens if key_tokens is None and queries == keys else key_tokens
    check_labels(tokens, queries, "query")
    check_labels(key_tokens, keys, "key")
    drawn, rows, columns = pool_map(values, MOST_CELLS, pool)
    cell = (round(queries / drawn.shape[0], 1), round(keys / drawn.shape[1], 1))
    hidden = hidden_cells(allowed, values, rows, columns)
    label = "weight" if cell == (1, 1) else f"weight, {pool} of {cell[0]:g} × {cell[1]:g} cells"
    with readable():
        ax = axes(ax, 6.4, 5.4)
        image = draw_map(ax, drawn, hidden, (queries, keys), norm_of(drawn, scale), SEQUENTIAL)
        colour_bar(ax, image, label)
        token_ticks(ax, "y", tokens, queries)
        token_ticks(ax, "x", key_tokens, keys)
        words(ax, title=title, x="key", y="query")
    return ax


def draw_map(
    ax: Axes, values: np.ndarray, hidden: np.ndarray | None, size: tuple[int, int], norm: Normalize, colours: str
) -> AxesImage:
    """Draw a (possibly pooled) map over the full range of positions, with hidden cells grey."""
    shown = np.ma.masked_array(values, hidden if hidden is not None else ~np.isfinite(values))
    extent = (-0.5, size[1] - 0.5, size[0] - 0.5, -0.5)
    ax.set_facecolor(HIDDEN)
    colour_map = colormaps[colours].with_extremes(bad=HIDDEN)
    image = ax.imshow(shown, cmap=colour_map, norm=norm, extent=extent, aspect="auto", interpolation="nearest")
    clean(ax)
    return image


def hidden_cells(allowed: Any, values: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray | None:
    """True where no cell of a bin may be attended to, or None."""
    if allowed is None:
        return None
    attend = as_array(allowed, "T S").astype(bool)
    check_labels(range(attend.shape[0]), values.shape[0], "mask row")  # type: ignore[arg-type]
    check_labels(range(attend.shape[1]), values.shape[1], "mask column")  # type: ignore[arg-type]
    joined = np.logical_or.reduceat(attend, rows[:-1], axis=0)
    return ~np.logical_or.reduceat(joined, columns[:-1], axis=1)


def norm_of(values: np.ndarray, scale: Scale) -> Normalize:
    """Colours from 0 (or 1e-4 of the largest, on a log scale) to the largest finite value."""
    finite = values[np.isfinite(values)]
    top = float(finite.max()) if finite.size and finite.max() > 0 else 1.0
    return LogNorm(top * 1e-4, top, clip=True) if scale == "log" else Normalize(0, top)
