"""How far heads look: attention mass against the distance between query and key.

Axes: H heads, B distance bins.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from regard.core.errors import ShapeError
from regard.views.arrays import as_array, check_labels
from regard.views.canvas import axes, clean, words
from regard.views.fonts import families, readable

FEW = 8  # so many lines can be told apart; more become a band
# Okabe and Ito's palette for all kinds of colour vision, and one dash pattern per line: colour is never the only sign.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8a6d00")
DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)), (0, (8, 2)))


def distance_profile(
    mass: Any,
    edges: Any = None,
    *,
    heads: Sequence[str] | None = None,
    title: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the share of attention per bin of distance: one line per head, or the median and bands when there are more than 8.

    Args:
        mass: (H, B), the mean mass of a row in each bin; a row sums to 1 where every distance has a bin.
        edges: (B + 1,) distances in positions, increasing; bin b holds edges[b] <= distance < edges[b + 1]. None: 0, 1, 2, 4, 8 ...
        heads: H names; None counts from 0.
        ax: Where to draw; None makes a figure.

    Raises:
        ShapeError: `mass` is not 2-D, or edges or names do not fit.
    """
    values = as_array(mass, "H B")
    bins = values.shape[1]
    limits = np.append([0], 2 ** np.arange(bins)) if edges is None else np.asarray(edges)
    if limits.shape != (bins + 1,) or (np.diff(limits) <= 0).any():
        raise ShapeError(f"{bins} bins need {bins + 1} increasing edges; there are {limits.size}")
    names = [f"head {n}" for n in range(len(values))] if heads is None else list(heads)
    check_labels(names, len(values), "head")
    places = np.arange(bins)
    with readable():
        ax = axes(ax, 6.2, 3.8)
        draw_lines(ax, places, values, names)
        labels = [bin_name(int(a), int(b)) for a, b in itertools.pairwise(limits)]
        ax.set_xticks(places, labels, fontsize=8, rotation=45 if bins > 8 else 0, ha="right" if bins > 8 else "center")
        ax.tick_params(labelsize=8, length=2)
        ax.set_ylim(0, None)
        clean(ax)
        words(ax, title=title, x="distance |query - key|, positions", y="share of attention")
    return ax


def draw_lines(ax: Axes, places: np.ndarray, values: np.ndarray, names: Sequence[str]) -> None:
    """One line per row of (N, P) values; more than 8 rows become a median with its 10-90 % band and thin lines behind."""
    if len(values) <= FEW:
        for row, name, colour, dash in zip(values, names, COLOURS, DASHES):
            ax.plot(places, row, color=colour, linestyle=dash, linewidth=1.4, label=name)
    else:
        ax.plot(places, values.T, color="#a9a9b3", linewidth=0.4, alpha=0.6)
        low, middle, high = np.nanquantile(values, (0.1, 0.5, 0.9), axis=0)
        ax.fill_between(places, low, high, color=COLOURS[0], alpha=0.25, linewidth=0, label="10-90 % of heads")
        ax.plot(places, middle, color=COLOURS[0], linewidth=1.8, label=f"median of {len(values)} heads")
    if not ax.get_legend_handles_labels()[0]:
        return  # one line without a name: nothing that a legend could say
    ax.legend(prop={"family": families(), "size": 7}, frameon=False, loc="best", ncols=1 + (len(names) > 4))


def bin_name(start: int, stop: int) -> str:
    """ "4-7", or one number."""
    return str(start) if stop - start == 1 else f"{start}–{stop - 1}"
