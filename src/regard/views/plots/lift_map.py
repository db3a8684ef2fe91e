"""Lift: how much more than an even spread a head gives to each key, so that the causal triangle does not hide the rest.

Axes: T queries, S keys. lift_ij = log2(A_ij / U_ij), where U_ij = 1 / (number of keys that query i may attend to).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize

from regard.core.errors import ShapeError
from regard.views.arrays import as_array, check_labels, pool_map
from regard.views.canvas import DIVERGING, axes, colour_bar, words
from regard.views.fonts import readable
from regard.views.plots.one_head import MOST_CELLS, draw_map
from regard.views.ticks import token_ticks


def lift(
    weights: Any,
    tokens: Sequence[str] | None = None,
    *,
    allowed: Any = None,
    key_tokens: Sequence[str] | None = None,
    limit: float = 6.0,
    title: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw log2(weight / even spread): 0 is what an even spread gives, +3 is eight times as much.

    Args:
        weights: (T, S), of one sample, layer and head. Above 1,024 a side, weights and even spread are pooled, then divided.
        tokens, key_tokens: As in `heatmap`.
        allowed: (T, S) bool, True = may be attended to; None: every key. The rest is drawn grey.
        limit: The colour scale ends at -limit and +limit; values beyond have its end colours.
        ax: Where to draw; None makes a figure.

    Raises:
        ShapeError: `weights` is not 2-D, or `allowed` or labels do not fit.
    """
    values = as_array(weights, "T S")
    attend = np.ones(values.shape, bool) if allowed is None else as_array(allowed, "T S").astype(bool)
    if attend.shape != values.shape:
        raise ShapeError(f"allowed is {attend.shape} and weights are {values.shape}; both are (queries, keys)")
    key_tokens = tokens if key_tokens is None and values.shape[0] == values.shape[1] else key_tokens
    check_labels(tokens, values.shape[0], "query")
    check_labels(key_tokens, values.shape[1], "key")
    even = attend / np.maximum(attend.sum(1, keepdims=True), 1)
    mass, _, _ = pool_map(values, MOST_CELLS)
    expected, _, _ = pool_map(even.astype(np.float32), MOST_CELLS)
    with np.errstate(divide="ignore", invalid="ignore"):
        shown = np.log2(mass / expected)
    shown = np.where(expected > 0, np.clip(shown, -limit, limit), np.nan)
    with readable():
        ax = axes(ax, 6.4, 5.4)
        image = draw_map(ax, shown, None, values.shape, Normalize(-limit, limit), DIVERGING)
        colour_bar(ax, image, "log2(weight / even spread)")
        token_ticks(ax, "y", tokens, values.shape[0])
        token_ticks(ax, "x", key_tokens, values.shape[1])
        words(ax, title=title, x="key", y="query")
    return ax
