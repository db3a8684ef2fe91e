"""How much faster than each peer, as bars against their targets: a row that falls short is hatched and marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import shorten
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullFormatter

from regard.core.errors import ShapeError
from regard.views.canvas import axes, clean, words
from regard.views.fonts import readable

PASS, SHORT = "#0072b2", "#d55e00"


def ratio_bars(rows: Sequence[Mapping[str, Any]], *, title: str | None = None, ax: Axes | None = None) -> Axes:
    """Draw the rows of the bench that compare times.

    Args:
        rows: Mappings with `name`, `against`, `ratio`, `target` (None: none), `sense` ("at least": larger is better; "at most": smaller
            is) and `verdict`. Rows without a ratio are left out.
        ax: Where to draw; None makes a figure as high as there are rows.

    Raises:
        ShapeError: No row has a ratio.
    """
    drawn = [row for row in rows if "ratio" in row and "value" not in row]
    if not drawn:
        raise ShapeError(f"none of the {len(rows)} rows compares two times; there is nothing to draw")
    with readable():
        ax = axes(ax, 8.2, 1.1 + 0.42 * len(drawn))
        for place, row in enumerate(drawn):
            short = row["verdict"] == "fall-short"
            ax.barh(place, row["ratio"], color=SHORT if short else PASS, hatch="//" if short else None, height=0.62)
            if row["target"] is not None:
                ax.plot([row["target"]] * 2, [place - 0.42, place + 0.42], color="black", linewidth=1.6)
            sign = (
                "" if row["target"] is None else {"at least": "≥", "at most": "≤"}[row["sense"]] + f"{row['target']:g}"
            )
            said = f"{row['ratio']:.2f}  {sign}{'  falls short' if short else ''}"
            end = max(row["ratio"], row["target"] or 0)
            ax.annotate(said, (end, place), xytext=(6, 0), textcoords="offset points", va="center", fontsize=7)
        labels = [f"{shorten(row['name'], 70, placeholder='…')}\nagainst {row['against']}" for row in drawn]
        ax.set_yticks(range(len(drawn)), labels, fontsize=7)
        ax.invert_yaxis()
        ax.set_xscale("log", base=2)
        ax.set_xlim(right=2.6 * max(max(row["ratio"], row["target"] or 0) for row in drawn))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
        ax.xaxis.set_minor_formatter(NullFormatter())
        ax.tick_params(labelsize=8, length=2)
        clean(ax)
        words(ax, title=title, x="ratio; black line: target", y=None)
    return ax
