"""How alike heads are: a clustered map of distances with its tree, so that redundant heads form blocks.

Axes: N heads (of one layer or of many).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from scipy.cluster.hierarchy import linkage, optimal_leaf_ordering
from scipy.spatial.distance import squareform

from regard.core.errors import ShapeError
from regard.views.arrays import as_array, check_labels
from regard.views.canvas import axes, bare, words
from regard.views.fonts import readable
from regard.views.plots.clustered import draw_tree
from regard.views.plots.one_head import draw_map
from regard.views.ticks import token_ticks


def head_similarity(
    distance: Any,
    *,
    heads: Sequence[str] | None = None,
    name: str = "distance",
    title: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw distances between heads, clustered, with the tree at the left. Dark cells are alike heads.

    Args:
        distance: (N, N), symmetric, 0 on the diagonal: for example the head distance of a capture (root of the Jensen-Shannon
            divergence, 0 to 1), or 1 - cosine of head outputs.
        heads: N names such as "L3 H7"; every n-th is drawn where all do not fit.
        name: What the number is, for the colour bar.
        ax: Where to draw; None makes a figure.

    Returns:
        The Axes that holds the parts; `child_axes` are the map, the tree and the map's own colour bar inside it.

    Raises:
        ShapeError: Not square, not symmetric to 1e-4, a diagonal that is not 0, or names that do not fit.
    """
    values = as_array(distance, "N N").astype(np.float64)
    count = len(values)
    if values.shape[1] != count:
        raise ShapeError(f"distances between heads form a square; these are {values.shape[0]} x {values.shape[1]}")
    if not np.allclose(values, values.T, atol=1e-4) or np.abs(np.diag(values)).max() > 1e-4:
        raise ShapeError("a distance is symmetric and 0 on the diagonal; for a similarity s in 0..1 give 1 - s")
    names = [str(n) for n in range(count)] if heads is None else list(heads)
    check_labels(names, count, "head")
    tree = None
    if count > 1:
        condensed = squareform((values + values.T) / 2, checks=False)
        tree = optimal_leaf_ordering(linkage(condensed, "average"), condensed)
    with readable():
        ax = bare(axes(ax, 6.8, 5.8))
        main = ax.inset_axes((0.18, 0.0, 0.8, 1.0))
        order = draw_tree(ax.inset_axes((0.0, 0.0, 0.17, 1.0)), tree, count, "left")
        top = float(values.max()) or 1.0
        image = draw_map(main, values[np.ix_(order, order)], None, (count, count), Normalize(0, top), "cividis")
        main.yaxis.tick_right()
        token_ticks(main, "y", [names[i] for i in order], count, ordered=False)
        token_ticks(main, "x", [names[i] for i in order], count, ordered=False)
        bar = ax.inset_axes((0.38, 1.05, 0.4, 0.025))
        ax.figure.colorbar(image, cax=bar, orientation="horizontal")
        bar.xaxis.tick_top()
        bar.tick_params(labelsize=7, length=2)
        bar.set_ylabel(name, rotation=0, ha="right", va="center", fontsize=8)
        if title is not None:
            words(main, x=title, size=11)
    return ax
