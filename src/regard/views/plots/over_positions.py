"""A score along the text: the median over heads with its band, so that 32,768 positions are one readable line.

Axes: H heads, T positions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from regard.core.errors import ShapeError
from regard.views.arrays import as_array, bin_edges
from regard.views.canvas import axes, clean, words
from regard.views.fonts import readable
from regard.views.plots.by_distance import COLOURS

MOST_POINTS = 512


def entropy_bands(
    entropy: Any,
    *,
    band: tuple[float, float] = (0.1, 0.9),
    name: str = "entropy, nats",
    title: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the entropy (or any score per query) over positions: median of all heads, and the band between two quantiles.

    Args:
        entropy: (H, T). More than 512 positions are joined: a point is then the quantile over heads and positions of its bin.
            NaN (a fully masked row) is left out.
        band: Two quantiles in 0..1.
        name: What the number is and its unit.
        ax: Where to draw; None makes a figure.

    Raises:
        ShapeError: `entropy` is not 2-D, or the quantiles are not 0 <= low < high <= 1.
    """
    values = as_array(entropy, "H T")
    low, high = band
    if not 0 <= low < high <= 1:
        raise ShapeError(f"a band is two quantiles 0 <= low < high <= 1; these are {low} and {high}")
    edges = bin_edges(values.shape[1], MOST_POINTS)
    places = (edges[:-1] + edges[1:] - 1) / 2
    lines = binned_quantiles(values, edges, (low, 0.5, high))
    joined = int(edges[1] - edges[0])
    over = f"{len(values)} heads" + (f" and {joined} positions" if joined > 1 else "")
    with readable():
        ax = axes(ax, 7.0, 3.4)
        shade = f"{low:.0%} to {high:.0%} over {over}"
        ax.fill_between(places, lines[0], lines[2], color=COLOURS[0], alpha=0.25, linewidth=0, label=shade)
        ax.plot(places, lines[1], color=COLOURS[0], linewidth=1.4, label="median")
        ax.legend(fontsize=7, frameon=False, loc="best")
        ax.tick_params(labelsize=8, length=2)
        ax.set_xlim(-0.5, values.shape[1] - 0.5)
        clean(ax)
        words(ax, title=title, x="query position", y=name)
    return ax


def binned_quantiles(values: np.ndarray, edges: np.ndarray, at: tuple[float, ...]) -> np.ndarray:
    """(len(at), bins) quantiles over all heads and the positions of each bin; NaN where a bin has no finite number."""
    heads, positions = values.shape
    width = int(edges[1] - edges[0])
    padded = np.full((heads, (len(edges) - 1) * width), np.nan, dtype=np.float32)
    padded[:, :positions] = np.where(np.isfinite(values), values, np.nan)
    grouped = np.sort(padded.reshape(heads, -1, width).swapaxes(1, 2).reshape(heads * width, -1), axis=0)  # NaN last
    count = np.isfinite(grouped).sum(0)
    place = np.asarray(at)[:, None] * np.maximum(count - 1, 0)
    below = np.floor(place).astype(int)
    above = np.minimum(below + 1, np.maximum(count - 1, 0))
    column = np.arange(grouped.shape[1])
    share = place - below
    return grouped[below, column] * (1 - share) + grouped[above, column] * share
