"""A head's map with rows and columns reordered by likeness, so that groups of tokens stand out as blocks.

Axes: T queries, S keys. Distance: Hellinger, sqrt(1 - sum_j sqrt(p_j q_j)), between rows (or normalised columns); average linkage.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from scipy.cluster.hierarchy import dendrogram, linkage, optimal_leaf_ordering
from scipy.spatial.distance import pdist

from regard.views.arrays import as_array, check_labels, pool_map
from regard.views.canvas import SEQUENTIAL, axes, bare, words
from regard.views.fonts import pyplot, readable
from regard.views.plots.one_head import Scale, draw_map, norm_of
from regard.views.ticks import token_ticks

MOST_LEAVES = 256  # more positions are joined into ranges before clustering


def clustermap(
    weights: Any,
    tokens: Sequence[str] | None = None,
    *,
    key_tokens: Sequence[str] | None = None,
    scale: Scale = "linear",
    title: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw one head with queries and keys clustered, and the two trees.

    Args:
        weights: (T, S), of one sample, layer and head. More than 256 positions are averaged into ranges first.
        tokens: T texts (and S texts in `key_tokens` where T != S). A label is "position text", since the order is not the text's.
        scale: "linear" or "log", as in `heatmap`.
        ax: Where to draw; None makes a figure.

    Returns:
        The Axes that holds the map; `child_axes` are the map, the row tree, the column tree and the colour bar.

    Raises:
        ShapeError: `weights` is not 2-D or the labels do not fit.
    """
    full = as_array(weights, "T S")
    key_tokens = tokens if key_tokens is None and full.shape[0] == full.shape[1] else key_tokens
    check_labels(tokens, full.shape[0], "query")
    check_labels(key_tokens, full.shape[1], "key")
    values, query_edges, key_edges = pool_map(full, MOST_LEAVES)
    rows, columns = tree_of(values), tree_of(values.T)
    with readable():
        ax = bare(axes(ax, 7.4, 6.6))
        main = ax.inset_axes((0.14, 0.0, 0.86, 0.86))
        row_order = draw_tree(ax.inset_axes((0.0, 0.0, 0.13, 0.86)), rows, len(values), "left")
        column_order = draw_tree(ax.inset_axes((0.14, 0.87, 0.86, 0.12)), columns, values.shape[1], "top")
        ordered = values[np.ix_(row_order, column_order)]
        image = draw_map(main, ordered, None, ordered.shape, norm_of(ordered, scale), SEQUENTIAL)
        main.yaxis.tick_right()
        bar = ax.inset_axes((0.0, 0.9, 0.1, 0.02))
        ax.figure.colorbar(image, cax=bar, orientation="horizontal")
        bar.tick_params(labelsize=6, length=2)
        words(bar, title="weight", size=6)
        token_ticks(main, "y", leaf_names(tokens, query_edges, row_order), len(row_order), ordered=False)
        token_ticks(main, "x", leaf_names(key_tokens, key_edges, column_order), len(column_order), ordered=False)
        words(main, x="key (clustered)")
        if title is not None:
            words(ax, title=title)
    return ax


def tree_of(values: np.ndarray) -> np.ndarray | None:
    """Average linkage of the rows by Hellinger distance, leaves in the best order; None for a single row."""
    if len(values) < 2:
        return None
    values = np.nan_to_num(values)
    total = values.sum(1, keepdims=True)
    shares = np.sqrt(np.maximum(values, 0) / np.where(total > 0, total, 1))
    distance = pdist(shares.astype(np.float64)) / np.sqrt(2)
    return optimal_leaf_ordering(linkage(distance, "average"), distance)


def draw_tree(ax: Axes, tree: np.ndarray | None, leaves: int, side: str, names: bool = False) -> list[int]:
    """Draw a tree beside a map ("left" or "top") and return the order of its leaves, first at the top or left."""
    bare(ax)
    if tree is None or tree[:, 2].max() == 0:  # nothing to tell apart
        return list(range(leaves))
    with pyplot().rc_context({"lines.linewidth": 0.7}):
        drawn = dendrogram(
            tree, ax=ax, orientation=side, no_labels=not names, color_threshold=0, above_threshold_color="#6a6a78"
        )
    if side == "left":
        ax.set_ylim(10 * leaves, 0)
    else:
        ax.set_xlim(0, 10 * leaves)
    return [int(leaf) for leaf in drawn["leaves"]]


def leaf_names(tokens: Sequence[str] | None, edges: np.ndarray, order: Sequence[int]) -> list[str]:
    """ "12 the" for single positions, "12–19" for ranges, in the order of the leaves."""
    names = []
    for leaf in order:
        start, stop = int(edges[leaf]), int(edges[leaf + 1])
        if stop - start > 1:
            names.append(f"{start}–{stop - 1}")
        else:
            names.append(str(start) if tokens is None else f"{start} {tokens[start]}")
    return names
