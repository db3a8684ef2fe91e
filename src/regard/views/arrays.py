"""Numbers for drawing: plain arrays from whatever holds them, and pooled maps when there are more cells than pixels.

Axes: T queries, S keys, H heads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from regard.core.errors import ShapeError

Pool = Literal["mean", "max"]


def as_array(values: Any, axes: str) -> np.ndarray:
    """A float or bool array on the CPU, checked to have the named axes.

    Args:
        values: A tensor (any device, dtype, with or without gradient), an array, or nested lists.
        axes: The axes that are expected, as in "H T S".

    Raises:
        ShapeError: Another number of axes, or no cell at all.
    """
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        values = values if str(values.dtype) == "torch.bool" else values.float()
    array = np.asarray(values)
    names = axes.split()
    if array.ndim != len(names):
        raise ShapeError(
            f"this plot takes ({', '.join(names)}), {len(names)} axes; the values have shape {tuple(array.shape)}; "
            "choose one sample, layer or head first"
        )
    if array.size == 0:
        raise ShapeError(f"there is nothing to draw: the values have shape {tuple(array.shape)}")
    return array if array.dtype == bool else array.astype(np.float32, copy=False)


def bin_edges(count: int, bins: int) -> np.ndarray:
    """(n + 1,) integer edges of at most `bins` bins of equal width (the last may be shorter) over `count` positions."""
    width = -(-count // max(1, min(count, bins)))
    return np.append(np.arange(0, count, width), count)


def pool(values: np.ndarray, edges: np.ndarray, axis: int, how: Pool = "mean") -> np.ndarray:
    """Mean or maximum over the bins of one axis."""
    starts = edges[:-1].astype(int)
    if how == "max":
        return np.maximum.reduceat(values, starts, axis=axis)
    shape = [1] * values.ndim
    shape[axis] = -1
    return np.add.reduceat(values, starts, axis=axis, dtype=np.float32) / np.diff(edges).reshape(shape)


def pool_map(values: np.ndarray, most: int, how: Pool = "mean") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A (T, S) map of at most `most` cells a side: (pooled, query edges, key edges). A smaller map is returned as it is."""
    query_edges, key_edges = bin_edges(values.shape[0], most), bin_edges(values.shape[1], most)
    if len(query_edges) - 1 < values.shape[0]:
        values = pool(values, query_edges, 0, how)
    if len(key_edges) - 1 < values.shape[1]:
        values = pool(values, key_edges, 1, how)
    return values, query_edges, key_edges


def check_labels(labels: Sequence[str] | None, count: int, what: str) -> None:
    """Refuse labels whose number is not that of the positions.

    Raises:
        ShapeError: The two numbers, and which axis.
    """
    if labels is not None and len(labels) != count:
        raise ShapeError(f"{len(labels)} {what} labels for {count} positions; give one label per position, or None")
