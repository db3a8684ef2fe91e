"""A mask as a picture: which keys each query may attend to.

Axes: T queries, S keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.patches import Patch

from regard.core.errors import MaskError
from regard.views.arrays import as_array, check_labels, pool_map
from regard.views.canvas import HIDDEN, axes, words
from regard.views.fonts import readable
from regard.views.plots.one_head import MOST_CELLS, draw_map
from regard.views.ticks import token_ticks

MOST_ROWS = 512  # of a mask object: rows beyond that are left out, evenly, and the axis says so
GRID_UP_TO = 32  # cells a side between which lines are drawn


def draw_mask(
    mask: Any,
    tokens: Sequence[str] | None = None,
    *,
    queries: int | None = None,
    keys: int | None = None,
    title: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw a boolean mask: dark cells attend (True), grey cells do not.

    Args:
        mask: (T, S) bool, or a `regard.mask` object with `queries` (and `keys`; None is the same number).
        tokens: T texts, where T = S.
        queries, keys: Sizes at which a mask object is drawn.
        ax: Where to draw; None makes a figure. Above 1,024 a side a cell shows the share of its mask cells that attend.

    Raises:
        MaskError: A float matrix (its polarity is unknown), a mask object without `queries`, or one that differs by sample or head.
        ShapeError: The matrix is not 2-D or the labels do not fit.
    """
    attend, every = dense_of(mask, queries, keys)
    size = (attend.shape[0] if every == 1 else int(queries or 0), attend.shape[1])
    check_labels(tokens, size[0], "query")
    shown, _, _ = pool_map(attend.astype(np.float32), MOST_CELLS)
    with readable():
        ax = axes(ax, 5.4, 5.2)
        draw_map(ax, shown, shown == 0, size, Normalize(0, 1), "cividis_r")
        if max(size) <= GRID_UP_TO:
            ax.hlines(np.arange(size[0] + 1) - 0.5, -0.5, size[1] - 0.5, color="white", linewidth=0.6)
            ax.vlines(np.arange(size[1] + 1) - 0.5, -0.5, size[0] - 0.5, color="white", linewidth=0.6)
        token_ticks(ax, "y", tokens, size[0])
        token_ticks(ax, "x", tokens if size[0] == size[1] else None, size[1])
        share = f"attend ({attend.mean():.1%})"
        legend = [Patch(facecolor="#00224e", label=share), Patch(facecolor=HIDDEN, label="hidden")]
        ax.legend(handles=legend, fontsize=8, frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
        words(ax, title=title, x="key", y="query" if every == 1 else f"query (one row in {every} is drawn)", pad=24)
    return ax


def dense_of(mask: Any, queries: int | None, keys: int | None) -> tuple[np.ndarray, int]:
    """((t, S) bool of a matrix or of a mask object, which row in how many it holds: 1 is all of them)."""
    if hasattr(mask, "materialise"):
        if queries is None:
            raise MaskError("a mask has no size of its own; give queries= (and keys= where they differ)")
        every = max(1, queries // MOST_ROWS)
        rows = torch.arange(0, queries, every) if every > 1 else None
        dense = mask.materialise(queries, queries if keys is None else keys, rows=rows)
        if dense.shape[0] > 1 or dense.shape[1] > 1:
            raise MaskError(
                f"this mask differs by sample or head, {tuple(dense.shape)}; "
                "draw mask.materialise(T, S)[sample, head] of the one you mean"
            )
        full = dense[0, 0].expand(queries if rows is None else len(rows), queries if keys is None else keys)
        return as_array(full, "T S").astype(bool), every
    array = as_array(mask, "T S")
    if array.dtype != bool:
        raise MaskError("a mask to draw is boolean, True = attend; convert a float mask first, for example mask > -1")
    return array, 1
