"""A place to draw: an Axes made or taken, titles in fonts that cover them, and a colour bar that says what it shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.views.fonts import drawable, families, pyplot

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable

SEQUENTIAL = "cividis"  # even in lightness and the same to all kinds of colour vision
DIVERGING = "PuOr_r"
HIDDEN = "#c9c9cf"  # what may not be attended to: a grey that is in neither map


def axes(ax: Axes | None, width: float, height: float) -> Axes:
    """The Axes that was given, or one of its own in a new figure of that size (inches)."""
    if ax is not None:
        return ax
    _, made = pyplot().subplots(figsize=(width, height), layout="constrained")
    return made


def words(
    ax: Axes, *, title: str | None = None, x: str | None = None, y: str | None = None, size: float = 10, pad: float = 6
) -> None:
    """Set title and axis names in families that cover them, whatever the Axes was made with."""
    if title is not None:
        ax.set_title(drawable(title), fontfamily=families(), fontsize=size + 1, pad=pad)
    if x is not None:
        ax.set_xlabel(drawable(x), fontfamily=families(), fontsize=size - 1)
    if y is not None:
        ax.set_ylabel(drawable(y), fontfamily=families(), fontsize=size - 1)


def colour_bar(ax: Axes, shown: ScalarMappable, label: str, *, size: float = 8) -> None:
    """A colour bar to the right of the Axes, inside its own space, with its unit."""
    bar_axes = ax.inset_axes((1.02, 0.0, 0.03, 1.0))
    bar = ax.figure.colorbar(shown, cax=bar_axes)
    bar.outline.set_visible(False)  # type: ignore[operator]
    bar_axes.set_ylabel(drawable(label), fontfamily=families(), fontsize=size)
    bar_axes.tick_params(labelsize=size - 1, length=2)


def bare(ax: Axes) -> Axes:
    """Hide an Axes that only holds others."""
    ax.set_axis_off()
    return ax


def clean(ax: Axes) -> None:
    """No grid and no frame at the top and right, whatever style is set."""
    ax.grid(False)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
