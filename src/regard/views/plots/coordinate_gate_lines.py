"""Coordinate attention of one channel: the gate of every row beside the image, the gate of every column below it.

Axes: H rows, W columns.
"""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes

from regard.core.errors import ShapeError
from regard.views.arrays import as_array
from regard.views.canvas import axes, clean, words
from regard.views.fonts import readable
from regard.views.plots.gate_maps import grey_or_colour

ROW, COLUMN = "#3b6ea5", "#b3541e"


def row_and_column_gates(
    rows: Any, columns: Any, image: Any = None, *, title: str | None = None, ax: Axes | None = None
) -> Axes:
    """Draw an image (or the product of the gates) with its row gates to the right and its column gates below.

    Args:
        rows: (H,), such as `module.inspect(x).gates["rows"][0, channel, :, 0]`.
        columns: (W,), such as `module.inspect(x).gates["columns"][0, channel, 0]`.
        image: (H, W) or (3, H, W) of the same size or finer; None draws rows times columns.
        ax: Where to draw; None makes a figure.

    Returns:
        The Axes of the image; its units are rows and columns of the gates.

    Raises:
        ShapeError: Gates that are not (H,) and (W,).
    """
    down, across = as_array(rows, "H"), as_array(columns, "W")
    picture = down[:, None] * across[None] if image is None else grey_or_colour(image)
    if picture.shape[0] < len(down) or picture.shape[1] < len(across):
        raise ShapeError(f"an image of {picture.shape[:2]} is coarser than its gates, {len(down)} rows x {len(across)}")
    extent = (-0.5, len(across) - 0.5, len(down) - 0.5, -0.5)
    low, high = min(down.min(), across.min()), max(down.max(), across.max())
    room = 0.08 * max(high - low, 1e-6)
    with readable():
        ax = axes(ax, 5.4, 4.8)
        ax.imshow(picture, extent=extent, cmap="gray" if image is not None else "cividis", interpolation="nearest")
        ax.tick_params(labelbottom=False, length=2, labelsize=8)
        clean(ax)
        words(ax, title=title, y="row")
        right = ax.inset_axes((1.04, 0.0, 0.28, 1.0), sharey=ax)
        right.plot(down, range(len(down)), color=ROW, linewidth=1.5)
        right.set_xlim(low - room, high + room)
        right.tick_params(labelleft=False, length=2, labelsize=7)
        below = ax.inset_axes((0.0, -0.32, 1.0, 0.28), sharex=ax)
        below.plot(range(len(across)), across, color=COLUMN, linewidth=1.5)
        below.set_ylim(low - room, high + room)
        below.tick_params(length=2, labelsize=7)
        for each, x, y in ((right, "row gate", None), (below, "column", "column gate")):
            clean(each)
            words(each, x=x, y=y, size=9)
    return ax
