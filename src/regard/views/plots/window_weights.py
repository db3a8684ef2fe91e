"""Window attention of one pixel over the image: what it gives each pixel of its region, and grey where it cannot look.

Axes: H rows, W columns, N slots of a window.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from regard.core.errors import ShapeError
from regard.views.arrays import as_array
from regard.views.canvas import HIDDEN, SEQUENTIAL, axes, clean, colour_bar, words
from regard.views.fonts import readable
from regard.views.plots.gate_maps import grey_or_colour


def weights_over_image(
    weights: Any,
    layer: Any,
    pixel: tuple[int, int],
    image: Any = None,
    *,
    size: tuple[int, int] | None = None,
    title: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the weights of one pixel's row where they belong on the image.

    Args:
        weights: (R, N, N) of one image and head: `layer.inspect(x).weights[0, head]`.
        layer: The window layer, which knows its regions.
        pixel: Row and column of the query.
        image: (H, W) or (3, H, W) to draw beside the weights, at the size of the map; None for none.
        size: (H, W) of the map, where no image of that size is given.
        ax: Where to draw; None makes a figure.

    Returns:
        The Axes. Grey pixels are outside the query's region; the query is marked by a cross.

    Raises:
        ShapeError: Weights that are not (R, N, N), or neither an image nor a size.
    """
    values = as_array(weights, "R N N")
    picture = None if image is None else grey_or_colour(image)
    if size is None and picture is None:
        raise ShapeError("weights do not say how large the map is; give size=(H, W) or an image of that size")
    rows, columns = size if size is not None else picture.shape[:2]  # type: ignore[union-attr]
    shown = pixel_weights(values, layer, pixel, (rows, columns))
    with readable():
        ax = axes(ax, 5.0, 5.0 * rows / columns + 0.4)
        ax.set_facecolor(HIDDEN)
        if picture is not None:
            ax.imshow(picture, cmap="gray", interpolation="nearest", alpha=0.35)
        drawn = ax.imshow(shown, cmap=colormaps[SEQUENTIAL], interpolation="nearest", vmin=0)
        colour_bar(ax, drawn, "weight")
        ax.plot(pixel[1], pixel[0], "x", color="white", markersize=10, markeredgewidth=3)
        ax.plot(pixel[1], pixel[0], "x", color="black", markersize=8, markeredgewidth=1.5)
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_locator(MaxNLocator(integer=True))
        clean(ax)
        words(ax, title=title or f"what pixel {pixel} attends to", x="column", y="row")
    return ax


def pixel_weights(values: np.ndarray, layer: Any, pixel: tuple[int, int], size: tuple[int, int]) -> np.ma.MaskedArray:
    """(H, W): the weights of one query on its region, masked elsewhere."""
    cut = layer.partition(*size)
    regions, (down, right) = cut.regions().numpy(), (slot.numpy() for slot in cut.slots())
    slots = down[:, None] * layer.window_size[1] + right[None]
    inside = regions == regions[pixel]
    row = values[regions[pixel], slots[pixel]]
    return np.ma.masked_array(row[slots], ~inside)
