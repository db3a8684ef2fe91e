"""Ticks that fit: token labels where a cell has room for text, and round position numbers where it has not.

The choice is made when the axis is drawn, from its length in pixels, so it stays right after a zoom or a change of size.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, Locator

from regard.views.fonts import drawable, families, width_in_em

ROOM = 1.25  # a label needs its height (or its width) times this
LONGEST = 14  # characters of a tick label


def token_ticks(
    ax: Axes, which: str, labels: Sequence[str] | None, count: int, *, size: float = 8, ordered: bool = True
) -> None:
    """Label one axis whose position p stands for token p.

    Args:
        which: "x" or "y".
        labels: One text per position, or None for numbers only.
        count: Positions.
        size: Points.
        ordered: False when neighbours are not neighbours in the text (a clustered axis): where not every label fits, every n-th
            label is drawn, because a number would mean nothing.
    """
    locator = TokenLocator(ax, which, labels, count, size, ordered)
    locator.upright = which == "y" or locator.text_fits(upright=True) or (labels is not None and not ordered)
    turned = 90 if which == "x" and locator.upright else 0
    ax.tick_params(axis=which, labelsize=size, labelrotation=turned, labelfontfamily=families(), length=2)  # type: ignore[arg-type]
    axis = ax.xaxis if which == "x" else ax.yaxis
    axis.set_major_locator(locator)
    axis.set_major_formatter(FuncFormatter(lambda position, _: locator.text(position)))


class TokenLocator(Locator):
    """Finds, at drawing time, the positions whose labels fit, and knows their text."""

    def __init__(self, ax: Axes, which: str, labels: Sequence[str] | None, count: int, size: float, ordered: bool):
        self.ax, self.which, self.count, self.size, self.ordered = ax, which, count, size, ordered
        self.labels = None if labels is None else [drawable(text, LONGEST) for text in labels]
        self.widest = max((width_in_em(text) for text in self.labels or ()), default=0)
        self.upright = True  # labels are stacked across their height
        self.as_text = False

    def text_fits(self, upright: bool) -> bool:
        """Whether every position has room for its label."""
        need = self._em() * ROOM * (1 if upright else self.widest)
        return self.labels is not None and self._cell() >= need

    def __call__(self):
        low, high = sorted((self.ax.xaxis if self.which == "x" else self.ax.yaxis).get_view_interval())
        first, last = max(0, int(np.ceil(low))), min(self.count - 1, int(np.floor(high)))
        fits = self.text_fits(self.upright)
        self.as_text = fits or (self.labels is not None and not self.ordered)
        wide = 1.0 if self.upright else width_in_em(str(self.count)) + 1
        step = 1 if fits else round_step(self._em() * ROOM * wide / self._cell())
        return np.arange(-(-first // step) * step, last + 1, step)

    def tick_values(self, vmin, vmax):
        return self()

    def text(self, position: float) -> str:
        at = round(position)
        if abs(position - at) > 1e-6 or not 0 <= at < self.count:
            return ""
        return self.labels[at] if self.as_text and self.labels is not None else str(at)

    def _em(self) -> float:
        return self.size / 72 * self.ax.figure.dpi

    def _cell(self) -> float:
        """The side of one position in pixels, at the present size and zoom."""
        box = self.ax.get_window_extent()
        low, high = self.ax.get_xlim() if self.which == "x" else self.ax.get_ylim()
        return max(box.width if self.which == "x" else box.height, 1) / max(abs(high - low), 1e-9)


def round_step(least: float) -> int:
    """The smallest of 1, 2, 5, 10, 20, 50 ... that is at least `least`.

    >>> round_step(0.3), round_step(6), round_step(128)
    (1, 10, 200)
    """
    power = 1
    while True:
        for factor in (1, 2, 5):
            if factor * power >= least:
                return factor * power
        power *= 10
