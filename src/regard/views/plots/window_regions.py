"""The regions of windows, shifted windows or a grid on an image of any size: pixels of one region attend to each other.

Axes: H rows, W columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.ticker import MaxNLocator

from regard.views.arrays import as_array
from regard.views.canvas import axes, clean, words
from regard.views.fonts import readable

MOST_NUMBERS = 40  # regions that are numbered; more would not be legible
MOST_NUMBERED_PIXELS = 200


def draw_windows(regions: Any, *, title: str | None = None, ax: Axes | None = None) -> Axes:
    """Draw which pixels belong together, by lines between regions and a tone per region.

    Args:
        regions: (H, W) integer, such as `layer.regions(H, W)`.
        ax: Where to draw; None makes a figure.

    Returns:
        The Axes. Up to 40 regions carry their number and how many pixels they have.

    Raises:
        ShapeError: Regions that are not (H, W).
    """
    values = as_array(regions, "H W").astype(int)
    names, index = np.unique(values, return_inverse=True)
    index = index.reshape(values.shape)
    # neighbours get distant tones: step through the map by the golden ratio
    tones = ListedColormap(colormaps["cividis"]((0.3 + 0.618034 * np.arange(len(names))) % 1 * 0.75 + 0.2))
    with readable():
        ax = axes(ax, 4.8, 4.8 * values.shape[0] / values.shape[1] + 0.4)
        ax.imshow(index, cmap=tones, vmin=-0.5, vmax=len(names) - 0.5, interpolation="nearest", alpha=0.75)
        _borders(ax, values)
        if len(names) <= MOST_NUMBERS:
            _numbers(ax, index, names)
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_locator(MaxNLocator(integer=True))
        clean(ax)
        words(ax, title=title or f"{len(names)} regions on {values.shape[0]} × {values.shape[1]}", x="column", y="row")
    return ax


def _borders(ax: Axes, values: np.ndarray) -> None:
    """A line between every two neighbouring pixels of different regions."""
    rows, columns = np.nonzero(values[:, 1:] != values[:, :-1])
    ax.vlines(columns + 0.5, rows - 0.5, rows + 0.5, color="black", linewidth=1.2)
    rows, columns = np.nonzero(values[1:] != values[:-1])
    ax.hlines(rows + 0.5, columns - 0.5, columns + 0.5, color="black", linewidth=1.2)


def _numbers(ax: Axes, index: np.ndarray, names: np.ndarray) -> None:
    """The number of a region in its middle; where regions are spread (a grid's), in every pixel that has room."""
    box = {"facecolor": "white", "alpha": 0.8, "edgecolor": "none", "pad": 1.0}
    for place, name in enumerate(names):
        rows, columns = np.nonzero(index == place)
        height, width = np.ptp(rows) + 1, np.ptp(columns) + 1
        if height * width == len(rows):
            text = f"{name}\n{len(rows)} px" if min(height, width) > 3 else f"{name}"
            ax.text(columns.mean(), rows.mean(), text, ha="center", va="center", fontsize=7, bbox=box)
        elif index.size <= MOST_NUMBERED_PIXELS:
            for row, column in zip(rows, columns):
                ax.text(float(column), float(row), f"{name}", ha="center", va="center", fontsize=7, bbox=box)
