"""One row of a head as bars: the keys that one query attends to most, told apart by position.

Axes: T queries, S keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from regard.core.errors import ShapeError
from regard.views.arrays import as_array, check_labels
from regard.views.canvas import axes, clean, words
from regard.views.fonts import drawable, families, readable

BAR, REST = "#3b6ea5", "#a9a9b3"


def token_bars(
    weights: Any,
    tokens: Sequence[str],
    *,
    query: int | str | tuple[str, int],
    key_tokens: Sequence[str] | None = None,
    top: int = 20,
    title: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the keys with the most weight in one row, largest first, and one bar for all others.

    Args:
        weights: (T, S), of one sample, layer and head.
        tokens: T texts (and S texts in `key_tokens` for cross-attention).
        query: A position; a text that occurs once; or (text, occurrence), the first occurrence being 1.
        top: Bars, at most.
        ax: Where to draw; None makes a figure.

    Raises:
        ShapeError: `weights` is not 2-D, labels do not fit, or the query is not there or occurs more than once (the text lists
            its positions).
    """
    values = as_array(weights, "T S")
    keys = tokens if key_tokens is None else key_tokens
    check_labels(tokens, values.shape[0], "query")
    check_labels(keys, values.shape[1], "key")
    at = position_of(query, tokens)
    row = values[at]
    top = max(1, min(top, len(row)))
    order = np.argsort(-row, kind="stable")[:top]
    names = [f"{drawable(keys[int(j)], 16)}  {j}" for j in order]
    sizes, colours = [float(row[j]) for j in order], [BAR] * top
    if len(row) > top:
        names.append(f"{len(row) - top} other keys")
        sizes.append(float(row.sum() - row[order].sum()))
        colours.append(REST)
    with readable():
        ax = axes(ax, 5.6, 1.1 + 0.22 * len(names))
        ax.barh(range(len(names)), sizes, color=colours, height=0.75)
        ax.set_yticks(range(len(names)), names, fontfamily=families(), fontsize=8)
        ax.set(ylim=(len(names) - 0.4, -0.6), xlim=(0, max(*sizes, 1e-12) * 1.14))
        ax.tick_params(labelsize=8, length=2)
        for place, size in enumerate(sizes):
            ax.text(size, place, f" {size:.3g}", va="center", fontsize=7)
        clean(ax)
        words(ax, title=title or f"query {at}: {tokens[at]}", x="weight", y="key, position")
    return ax


def position_of(query: int | str | tuple[str, int], tokens: Sequence[str]) -> int:
    """The position that a number, a text that occurs once, or (text, occurrence from 1) stands for.

    >>> position_of(("the", 2), ["the", "cat", "the"])
    2

    Raises:
        ShapeError: Out of range, absent, or ambiguous.
    """
    if isinstance(query, int):
        if not -len(tokens) <= query < len(tokens):
            raise ShapeError(
                f"query {query} is out of range; there are {len(tokens)} positions, 0 to {len(tokens) - 1}"
            )
        return query % len(tokens)
    text, occurrence = (query, None) if isinstance(query, str) else query
    places = [i for i, token in enumerate(tokens) if token == text]
    if not places:
        raise ShapeError(f"no token is {text!r}; give a position, 0 to {len(tokens) - 1}")
    listed = ", ".join(map(str, places[:10])) + (" ..." if len(places) > 10 else "")
    if occurrence is None and len(places) > 1:
        raise ShapeError(
            f"{text!r} occurs {len(places)} times, at {listed}; give the position, or ({text!r}, 1) for the first"
        )
    if occurrence is not None and not 1 <= occurrence <= len(places):
        raise ShapeError(
            f"{text!r} has {len(places)} occurrences, at {listed}; occurrence {occurrence} is not one of 1 to {len(places)}"
        )
    return places[(occurrence or 1) - 1]
