"""The receptive field of one output pixel, read out of a layer: which input pixels change it when they change.

Axes: H rows, W columns.
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


def field_of_pixel(layer: Any, image: Any, pixel: tuple[int, int]):
    """How strongly each input pixel acts on one output pixel: the gradient's length over channels.

    Args:
        layer: Takes (1, C, H, W) and gives (1, C', H', W').
        image: (1, C, H, W); it is not changed.
        pixel: Row and column of the output.

    Returns:
        (H, W) float; exactly 0 where the input pixel has no effect.

    Raises:
        ShapeError: The output has no such pixel.
    """
    given = image.detach().clone().requires_grad_()
    output = layer(given)
    row, column = pixel
    if not (0 <= row < output.shape[2] and 0 <= column < output.shape[3]):
        raise ShapeError(f"pixel {pixel} is not in an output of {output.shape[2]} x {output.shape[3]}")
    # squares, so that no sum over channels that is constant (a norm's) hides an effect
    output[0, :, row, column].square().sum().backward()
    return given.grad[0].square().sum(0).sqrt()


def draw_field(
    field: Any, pixel: tuple[int, int], *, regions: Any = None, title: str | None = None, ax: Axes | None = None
) -> Axes:
    """Draw a measured receptive field; what has no effect at all is grey.

    Args:
        field: (H, W), as `field_of_pixel` gives it.
        pixel: Row and column of the output pixel, marked by a cross.
        regions: (H, W) integer, as a layer defines them; the border of the pixel's region is drawn, to compare.
        ax: Where to draw; None makes a figure.

    Returns:
        The Axes.

    Raises:
        ShapeError: `field` or `regions` is not (H, W).
    """
    values = as_array(field, "H W")
    seen = values > 0
    with readable():
        ax = axes(ax, 5.0, 5.0 * values.shape[0] / values.shape[1] + 0.4)
        ax.set_facecolor(HIDDEN)
        if seen.any():
            shown = ax.imshow(
                np.ma.masked_array(values, ~seen), cmap=colormaps[SEQUENTIAL], vmin=0, interpolation="nearest"
            )
            colour_bar(ax, shown, "length of the gradient (grey: none)")
        ax.plot(pixel[1], pixel[0], "x", color="white", markersize=10, markeredgewidth=3)
        ax.plot(pixel[1], pixel[0], "x", color="black", markersize=8, markeredgewidth=1.5)
        if regions is not None:
            own = as_array(regions, "H W")
            _outline(ax, own == own[pixel])
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_locator(MaxNLocator(integer=True))
        clean(ax)
        words(ax, title=title or f"{int(seen.sum())} of {seen.size} pixels act on {pixel}", x="column", y="row")
    return ax


def _outline(ax: Axes, inside: np.ndarray) -> None:
    framed = np.pad(inside, 1)
    rows, columns = np.nonzero(framed[1:-1, 1:] != framed[1:-1, :-1])
    ax.vlines(columns - 0.5, rows - 0.5, rows + 0.5, color="#d1495b", linewidth=2)
    rows, columns = np.nonzero(framed[1:, 1:-1] != framed[:-1, 1:-1])
    ax.hlines(rows - 0.5, columns - 0.5, columns + 0.5, color="#d1495b", linewidth=2)
