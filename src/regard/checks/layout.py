"""Which axis of a tensor is the batch, which are tokens, which are channels: one view (B, N, F) for every layout.

Axes: B batch; L, H, W, T tokens along one, two or three directions; D channels; K heads that the caller has split already.
"BLD" is batch-first text, "LBD" sequence-first, "BDHW" images, "BHWD" channels-last, "BDL" signals, "BKLD" heads-first kernels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

TOKEN_AXES = "LHWT"
FEATURE_AXES = "KD"


@dataclass(frozen=True)
class Layout:
    """The axes of one tensor, in order, as letters (see the file's head)."""

    axes: str

    @property
    def batched(self) -> bool:
        return "B" in self.axes

    @property
    def token_axes(self) -> str:
        return "".join(sorted((a for a in self.axes if a in TOKEN_AXES), key="THWL".index))

    def shape(self, batch: int, grid: tuple[int, ...], width: int, heads: int = 1) -> tuple[int, ...]:
        """The tensor's shape for `batch` items of `grid` tokens with `width` channels."""
        size = {"B": batch, "D": width, "K": heads, **dict(zip(self.token_axes, grid))}
        return tuple(size[a] for a in self.axes)

    def _order(self) -> list[int]:
        feature = [a for a in FEATURE_AXES if a in self.axes]
        names = (["B"] if self.batched else []) + list(self.token_axes) + feature
        return [self.axes.index(a) for a in names]

    def to_tokens(self, x: Tensor) -> Tensor:
        """(B, N, F): tokens in raster order, heads and channels joined; a copy."""
        y = x.permute(self._order())
        if not self.batched:
            y = y.unsqueeze(0)
        tokens = math.prod(y.shape[1 : 1 + len(self.token_axes)])
        return y.reshape(y.shape[0], tokens, -1).clone()

    def from_tokens(self, tokens: Tensor, grid: tuple[int, ...], heads: int = 1) -> Tensor:
        """The inverse of `to_tokens`; `grid` says how the N tokens lie. Contiguous."""
        batch, _, features = tokens.shape
        shape = ([batch] if self.batched else []) + list(grid)
        shape += [heads, features // heads] if "K" in self.axes else ([features] if "D" in self.axes else [])
        y = tokens.reshape(shape)
        order = self._order()
        back = [order.index(i) for i in range(len(order))]
        return y.permute(back).contiguous()


def output_layout(shape: tuple[int, ...], query: Layout, batch: int, grid: tuple[int, ...]) -> Layout | None:
    """How an output lies, given how its query lay: the same axes if the sizes allow it, else matched by size, else None."""
    if len(shape) == len(query.axes) and _sizes_agree(shape, query, batch, grid):
        return query
    tokens = math.prod(grid)
    flat = {("BLD", 3), ("LBD", 3), ("BDL", 3), ("LD", 2), ("BL", 2)}
    for axes, ndim in (("BLD", 3), ("LBD", 3), ("BDL", 3), ("LD", 2), ("BL", 2)):
        if (axes, ndim) in flat and len(shape) == ndim and _sizes_agree(shape, Layout(axes), batch, (tokens,)):
            if query.batched != ("B" in axes) and (batch > 1 or not query.batched):
                continue
            return Layout(axes)
    for axes in ("BDHW", "BHWD") if len(grid) == 2 else ():
        if len(shape) == 4 and _sizes_agree(shape, Layout(axes), batch, grid):
            return Layout(axes)
    return None


def _sizes_agree(shape: tuple[int, ...], layout: Layout, batch: int, grid: tuple[int, ...]) -> bool:
    if len(layout.token_axes) != len(grid):
        return False
    want = {"B": batch, **dict(zip(layout.token_axes, grid))}
    return all(want.get(a, n) == n for a, n in zip(layout.axes, shape))
