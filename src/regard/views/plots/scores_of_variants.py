"""How variants of a model compare: every run a point, the mean a line, so that spread and difference are seen together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes

from regard.core.errors import CaptureError
from regard.views.canvas import axes, clean, words
from regard.views.fonts import drawable, families, readable


def scores(
    runs: Mapping[str, Sequence[float]], *, metric: str = "score", title: str | None = None, ax: Axes | None = None
) -> Axes:
    """Draw the scores of several runs of several variants.

    Args:
        runs: By the name of the variant, the score of each run. The first one is the baseline: its mean is drawn through.
        metric: What a score is.
        ax: Where to draw; None makes a figure.

    Raises:
        CaptureError: No variant, or one without a finite score (its name).
    """
    bad = [name for name, values in runs.items() if not len(values) or not np.isfinite(values).all()]
    if bad or not runs:
        raise CaptureError(f"no finite score of {bad[0]!r}" if bad else "there is no variant to draw")
    with readable():
        ax = axes(ax, 6.4, 0.9 + 0.36 * len(runs))
        base = float(np.mean(next(iter(runs.values()))))
        ax.axvline(base, color="#8a8a93", linewidth=1, linestyle=(0, (4, 3)), zorder=1)
        for row, values in enumerate(runs.values()):
            ax.plot(values, [row] * len(values), "o", color="#2f6690", markersize=5, alpha=0.75, zorder=3)
            ax.plot([np.mean(values)] * 2, [row - 0.28, row + 0.28], color="#d1603d", linewidth=2, zorder=2)
        ax.set_yticks(range(len(runs)), [drawable(name) for name in runs], fontfamily=families(), fontsize=8)
        ax.set_ylim(len(runs) - 0.5, -0.5)
        ax.tick_params(labelsize=8, length=2)
        clean(ax)
        words(ax, title=title, x=f"{metric} (points: runs; red: their mean; dashed: mean of {next(iter(runs))})")
    return ax
