"""Tensors that go with a call beside its query and keys: a token's embedding, places of points, tables of positions.

They are made up, so they are constants: equal for all items, and as long as the stream they go with.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

MOST = 512  # tokens that a companion has values for
NARROW = 3  # channels of places in a line, a plane or a room

Made = Callable[[dict[str, Tensor], torch.dtype], Tensor]


def companion(layout: str, width: int, along: str | int | None, query: str, name: str = "") -> Made:
    """What fills an argument: a function of the tokens of all streams and the working dtype.

    Args:
        layout: its axes (see `shapes_apart`).
        width: D.
        along: the stream whose tokens it has one entry for, or a fixed number of tokens.
        query: the stream whose positions tables are for.
        name: the argument's name; weights of an earlier step are positive and sum to one.
    """

    def make(tokens: dict[str, Tensor], dtype: torch.dtype) -> Tensor:
        items, places = tokens[query].shape[0], tokens[query].shape[1]
        count = tokens[along].shape[1] if isinstance(along, str) else along or 1
        generator = torch.Generator().manual_seed(5)
        if layout in ("1PD", "PD", "1RD", "RD"):
            where = torch.arange(places) if "P" in layout else torch.arange(places - 1, -places, -1)
            table = _waves(where, width)
            return (table[None] if layout[0] == "1" else table).to(dtype)
        if layout == "B":
            return torch.full((items,), 0.5, dtype=dtype)
        if layout in ("ids", "id"):
            return torch.ones((items, count) if layout == "ids" else (items,), dtype=torch.long)
        if layout == "BL":
            row = torch.rand(MOST, generator=generator, dtype=torch.float64)[:count] + 0.5
            return (row / row.sum()).expand(items, count).contiguous().to(dtype)
        if layout in ("BD", "1BD"):
            vector = _draw((width,), generator).expand(items, width).contiguous().to(dtype)
            return vector if layout == "BD" else vector[None]
        if layout == "BLLD":
            left, right = _draw((2, MOST, width), generator)[:, :count]
            return (left[:, None] * right).expand(items, count, count, width).contiguous().to(dtype)
        rows = (
            torch.rand(MOST, width, generator=generator, dtype=torch.float64)
            if width <= NARROW
            else _draw((MOST, width), generator)
        )
        return rows[:count].expand(items, count, width).contiguous().to(dtype)

    axes = ", ".join({"P": "T", "R": "2T - 1"}.get(a, a) for a in ({"ids": "BL", "id": "B"}.get(layout, layout)))
    make.__doc__ = f"made up, ({axes}), equal for all items"
    return make


def _draw(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def _waves(where: Tensor, width: int) -> Tensor:
    """(P,) -> (P, D): sines and cosines of the places."""
    rate = torch.exp(torch.arange(0, width, 2, dtype=torch.float64) * (-math.log(10_000.0) / width))
    angle = where[:, None].to(torch.float64) * rate
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(1)[:, :width]
