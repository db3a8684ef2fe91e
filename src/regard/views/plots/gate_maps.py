"""A spatial gate over its image: where a network looks, bright where the gate is open.

Axes: H rows, W columns of the image; h rows, w columns of the gate, which may be coarser.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import Normalize

from regard.core.errors import ShapeError
from regard.views.arrays import as_array
from regard.views.canvas import SEQUENTIAL, axes, clean, colour_bar, words
from regard.views.fonts import readable


def gate_over_image(
    gate: Any,
    image: Any = None,
    *,
    strength: float = 0.65,
    limits: tuple[float, float] | None = None,
    title: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw one gate as colours over one image.

    Args:
        gate: (h, w), such as `module.inspect(x).gates["spatial"][0, 0]`.
        image: (H, W) grey or (3, H, W) colours, any range; None draws the gate alone.
        strength: Opacity of the colours over the image.
        limits: Smallest and largest value of the colour bar; None: those of the gate.
        ax: Where to draw; None makes a figure.

    Returns:
        The Axes; its units are the pixels of the image (of the gate where there is no image).

    Raises:
        ShapeError: A gate that is not (h, w), or an image that is neither grey nor three colours.
    """
    values = as_array(gate, "h w")
    picture = None if image is None else grey_or_colour(image)
    size = values.shape if picture is None else picture.shape[:2]
    extent = (-0.5, size[1] - 0.5, size[0] - 0.5, -0.5)
    low, high = limits or (float(values.min()), float(values.max()))
    with readable():
        ax = axes(ax, 4.8, 4.2)
        if picture is not None:
            ax.imshow(picture, extent=extent, cmap="gray", interpolation="nearest")
        shown = ax.imshow(
            values,
            extent=extent,
            cmap=colormaps[SEQUENTIAL],
            norm=Normalize(low, high if high > low else low + 1e-6),
            alpha=1.0 if picture is None else strength,
            interpolation="nearest",
        )
        colour_bar(ax, shown, f"gate, {values.shape[0]} × {values.shape[1]}")
        clean(ax)
        words(ax, title=title, x="column", y="row")
    return ax


def grey_or_colour(image: Any) -> np.ndarray:
    """(H, W) or (H, W, 3), brought to the range 0 to 1."""
    array = np.asarray(image.detach().cpu().float() if hasattr(image, "detach") else image, dtype=np.float32)
    if array.ndim == 3 and array.shape[0] in (1, 3):
        array = array[0] if array.shape[0] == 1 else np.moveaxis(array, 0, 2)
    if array.ndim != 2 and not (array.ndim == 3 and array.shape[2] == 3):
        raise ShapeError(f"an image is (H, W) or (3, H, W), got {tuple(array.shape)}; choose one of the batch first")
    low, high = float(array.min()), float(array.max())
    return (array - low) / (high - low) if high > low else np.zeros_like(array)
