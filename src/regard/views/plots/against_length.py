"""What a computation costs as sequences grow: time against length on logarithmic axes, one line per way to compute it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullFormatter

from regard.core.errors import ShapeError
from regard.views.canvas import axes, clean, words
from regard.views.fonts import families, readable
from regard.views.plots.by_distance import COLOURS, DASHES


def cost_by_length(
    curves: Sequence[Mapping[str, Any]], *, title: str | None = None, unit: str = "ms", ax: Axes | None = None
) -> Axes:
    """Draw cost against length. The legend has each line's slope: 1 is linear, 2 is quadratic.

    Args:
        curves: Mappings with `name`, `lengths` (tokens), `ms` (as many times, positive), and `slope`.
        ax: Where to draw; None makes a figure.

    Raises:
        ShapeError: No curve, or a curve whose lengths and times do not pair up.
    """
    if not curves:
        raise ShapeError("there is no curve to draw; give at least one mapping with name, lengths, ms and slope")
    with readable():
        ax = axes(ax, 6.4, 4.2)
        for curve, colour, dash in zip(curves, COLOURS, DASHES):
            lengths, times = list(curve["lengths"]), list(curve["ms"])
            if len(lengths) != len(times):
                raise ShapeError(f"{curve['name']}: {len(lengths)} lengths and {len(times)} times; they must pair up")
            label = f"{curve['name']} (slope {curve['slope']:.2f})"
            ax.plot(
                lengths, times, color=colour, linestyle=dash, linewidth=1.5, marker="o", markersize=3.5, label=label
            )
        ax.set_xscale("log", base=2)
        ax.set_yscale("log")
        ax.set_xticks(sorted({n for curve in curves for n in curve["lengths"]}))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda n, _: f"{n:,.0f}"))
        ax.xaxis.set_minor_formatter(NullFormatter())
        ax.yaxis.set_major_formatter(FuncFormatter(lambda t, _: f"{t:,g}"))
        ax.tick_params(labelsize=8, length=2)
        ax.legend(prop={"family": families(), "size": 8}, frameon=False, loc="upper left")
        clean(ax)
        words(ax, title=title, x="tokens", y=f"CPU time, {unit}")
    return ax
