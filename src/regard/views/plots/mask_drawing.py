"""A mask as a picture: which keys each query may attend to.

Axes: T queries, S keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.patches import Patch

from regard.core.errors import MaskError
from regard.views.arrays import as_array, check_labels, pool_map
from regard.views.canvas import HIDDEN, axes, words
from regard.views.fonts import readable
from regard.views.plots.one_head import MOST_CELLS, draw_map
from regard.views.ticks import token_ticks

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
    attend = dense_of(mask, queries, keys)
    check_labels(tokens, attend.shape[0], "query")
    shown, _, _ = pool_map(attend.astype(np.float32), MOST_CELLS)
    with readable():
        ax = axes(ax, 5.4, 5.2)
        draw_map(ax, shown, shown == 0, attend.shape, Normalize(0, 1), "cividis_r")  # type: ignore[arg-type]
        if max(attend.shape) <= GRID_UP_TO:
            ax.hlines(np.arange(attend.shape[0] + 1) - 0.5, -0.5, attend.shape[1] - 0.5, color="white", linewidth=0.6)
            ax.vlines(np.arange(attend.shape[1] + 1) - 0.5, -0.5, attend.shape[0] - 0.5, color="white", linewidth=0.6)
        token_ticks(ax, "y", tokens, attend.shape[0])
        token_ticks(ax, "x", tokens if attend.shape[0] == attend.shape[1] else None, attend.shape[1])
        legend = [
            Patch(facecolor="#00224e", label=f"attend ({attend.mean():.1%})"),
            Patch(facecolor=HIDDEN, label="hidden"),
        ]
        ax.legend(handles=legend, fontsize=8, frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
        words(ax, title=title, x="key", y="query", pad=24)
    return ax


def dense_of(mask: Any, queries: int | None, keys: int | None) -> np.ndarray:
    """(T, S) bool of a matrix or of a mask object."""
    if hasattr(mask, "dense") and not hasattr(mask, "dtype"):
        if queries is None:
            raise MaskError("a mask has no size of its own; give queries= (and keys= where they differ)")
        dense = mask.dense(queries, queries if keys is None else keys)
        if dense.ndim > 2 and any(n != 1 for n in dense.shape[:-2]):
            raise MaskError(f"this mask differs by sample or head, {tuple(dense.shape)}; draw dense(...)[sample, head]")
        return as_array(dense.reshape(dense.shape[-2:]), "T S").astype(bool)
    array = as_array(mask, "T S")
    if array.dtype != bool:
        raise MaskError("a mask to draw is boolean, True = attend; convert a float mask first, for example mask > -1")
    return array
