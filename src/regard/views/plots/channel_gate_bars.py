"""A channel gate as bars, one per channel, sorted, with the most and the least open channels named.

Axes: C channels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from regard.views.arrays import as_array
from regard.views.canvas import axes, clean, words
from regard.views.fonts import readable

BAR, LINE = "#3b6ea5", "#75757d"


def channel_bars(gate: Any, *, named: int = 3, title: str | None = None, ax: Axes | None = None) -> Axes:
    """Draw the gate of every channel, largest first.

    Args:
        gate: (C,), such as `module.inspect(x).gates["channel"][0, :, 0, 0]`.
        named: How many channels at either end get their number.
        ax: Where to draw; None makes a figure.

    Returns:
        The Axes. The dashed line is the mean over the channels.

    Raises:
        ShapeError: A gate that is not (C,).
    """
    values = as_array(gate, "C")
    order = np.argsort(-values, kind="stable")
    with readable():
        ax = axes(ax, 5.6, 3.0)
        ax.bar(range(len(values)), values[order], width=1.0 if len(values) > 64 else 0.8, color=BAR)
        ax.axhline(float(values.mean()), color=LINE, linestyle="--", linewidth=1)
        ends = [*range(min(named, len(values))), *range(max(len(values) - named, named), len(values))]
        for place in ends:
            channel, size = int(order[place]), float(values[order[place]])
            ax.text(place, size, f" {channel}", rotation=90, ha="center", va="bottom", fontsize=7)
        ax.set(xlim=(-0.6, len(values) - 0.4), ylim=(min(0.0, float(values.min())), float(values.max()) * 1.15 + 1e-6))
        ax.tick_params(labelsize=8, length=2)
        clean(ax)
        words(ax, title=title, x=f"{len(values)} channels, most open first (numbers: which channel)", y="gate")
    return ax
