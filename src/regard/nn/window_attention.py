"""Attention inside windows of an image, at any height and width: the windows of Swin, versions 1 and 2.

Axes: B images, C channels, H rows, W columns, h heads, D channels of a head, N = wh ww pixels of a window.
Sources: Liu et al. 2021, arXiv:2103.14030 (version 1: a table of biases per offset); Liu et al. 2022, arXiv:2111.09883
(version 2: cosine of query and key times a learned temperature, biases from log-spaced offsets).
Left open there: images that windows do not divide. Here the last windows are smaller (see `window_partition`).
"""

from __future__ import annotations

import math
from operator import index
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.core.attention import attention, attention_weights
from regard.core.bias import resize_window_table
from regard.core.errors import ShapeError
from regard.nn.feature_map import check_map
from regard.nn.window_bias import LogSpacedOffsets, OffsetTable
from regard.nn.window_partition import Partition, Segment, window_cells, window_merge, window_partition

MAX_TEMPERATURE = 100.0  # version 2: the factor of the cosine, from the paper


class Windowed(NamedTuple):
    """What `inspect` of a window layer returns.

    Attributes:
        output: (B, C, H, W), the same values as `forward`.
        weights: (B, h, R, N, N), after softmax, before dropout, for each of the R regions that `regions(H, W)` numbers. A
            region with fewer pixels fills the upper left of its window; the other weights are 0.
    """

    output: Tensor
    weights: Tensor


class WindowAttention(nn.Module):
    """Self-attention among the pixels of each window.

    Args:
        channels: C.
        num_heads: h, divides C.
        window_size: Rows and columns of a window, or one number for both.
        version: 1 or 2, of Swin: see the head of this file.
        qkv_bias: Whether queries, keys and values have biases (in version 2: queries and values).
        dropout: Probability with which a weight is dropped while training.
        pretrained_window: Version 2: the window whose largest offset counts as 1; None: `window_size`.

    Shapes: (B, C, H, W) in and out, any H and W; the output lies channels last in memory. Pixel (i, j) sees the pixels
    of its window and no others.

    Raises:
        ShapeError: Heads that do not divide the channels, a window without pixels.

    >>> WindowAttention(8, 2, window_size=4)(torch.ones(1, 8, 5, 9)).shape
    torch.Size([1, 8, 5, 9])
    """

    def __init__(
        self,
        channels: int,
        num_heads: int,
        *,
        window_size: int | tuple[int, int] = 7,
        version: Literal[1, 2] = 1,
        qkv_bias: bool = True,
        dropout: float = 0.0,
        pretrained_window: int | tuple[int, int] | None = None,
        device: torch.device | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if num_heads < 1 or channels % num_heads:
            raise ShapeError(f"{channels} channels do not divide into {num_heads} heads")
        if version not in (1, 2):
            raise ShapeError(f"version is 1 or 2, of Swin, got {version!r}")
        self.channels, self.num_heads, self.version, self.dropout = channels, num_heads, version, dropout
        self.window_size = both(window_size)
        if min(self.window_size) < 1:
            raise ShapeError(f"a window needs at least one pixel, got {self.window_size[0]} x {self.window_size[1]}")
        place = {"device": device, "dtype": dtype}
        self.qkv = nn.Linear(channels, 3 * channels, bias=qkv_bias and version == 1, **place)
        self.out_proj = nn.Linear(channels, channels, **place)
        if version == 1:
            self.position_bias = OffsetTable(self.window_size, num_heads, **place)
        else:
            trained = None if pretrained_window is None else both(pretrained_window)
            self.position_bias = LogSpacedOffsets(self.window_size, num_heads, pretrained_window=trained, **place)
            self.log_temperature = nn.Parameter(torch.full((num_heads, 1, 1), math.log(10.0), **place))
            self.q_bias = nn.Parameter(torch.zeros(channels, **place)) if qkv_bias else None
            self.v_bias = nn.Parameter(torch.zeros(channels, **place)) if qkv_bias else None

    @property
    def shift(self) -> tuple[int, int]:
        """By how much the windows are moved down and right."""
        return (0, 0)

    def partition(self, rows: int, columns: int) -> Partition:
        """How an image of this size is cut."""
        return window_cells((rows, columns), self.window_size, self.shift)

    def regions(self, rows: int, columns: int) -> Tensor:
        """(H, W) integer: the region of each pixel. Pixels see each other inside a region and nowhere else."""
        return self.partition(rows, columns).regions()

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) to the same."""
        check_map(x, self.channels, self)
        return self.attend(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)

    def attend(self, pixels: Tensor) -> Tensor:
        """The same on (B, H, W, C)."""
        cut = self.partition(index(pixels.shape[1]), index(pixels.shape[2]))  # plain numbers, also while compiling
        qkv, bias = self._project(pixels, cut), self.position_bias()
        rows = []
        for down, band in zip(cut.rows, _apart(qkv, cut.rows, dim=1)):
            parts = zip(cut.columns, _apart(band, cut.columns, dim=2))
            row = [self._cells(part, bias, down, right) for right, part in parts]
            rows.append(torch.cat(row, dim=2) if len(row) > 1 else row[0])
        mixed = torch.cat(rows, dim=1) if len(rows) > 1 else rows[0]  # (B, H, W, C)
        return self.out_proj(_reordered(mixed, cut, back=True))

    def inspect(self, x: Tensor) -> Windowed:
        """The output and the weights of every region: (B, C, H, W) to a `Windowed`."""
        check_map(x, self.channels, self)
        cut = self.partition(*x.shape[2:])
        qkv, bias = self._project(x.permute(0, 2, 3, 1), cut), self.position_bias()
        (down_count, right_count), (rows, columns) = cut.counts, self.window_size
        weights = x.new_zeros(len(x), self.num_heads, down_count, right_count, rows, columns, rows, columns)
        above = 0
        for down, band in zip(cut.rows, _apart(qkv, cut.rows, dim=1)):
            before = 0
            for right, part in zip(cut.columns, _apart(band, cut.columns, dim=2)):
                seen = self._cell_weights(part, bias, down, right)  # (B, h, n, m, i, j, i, j) with cells of i x j
                i, j = down.size, right.size
                weights[:, :, above : above + down.count, before : before + right.count, :i, :j, :i, :j] = seen
                before += right.count
            above += down.count
        return Windowed(self.forward(x), weights.flatten(2, 3).flatten(3, 4).flatten(4, 5))

    @torch.no_grad()
    def set_window_size(self, window_size: int | tuple[int, int]) -> None:
        """Use other windows from now on. Version 1 resizes its table (bicubic); version 2 needs no new parameter.

        The table is a new parameter: make the optimiser after this.
        """
        new = both(window_size)
        if min(new) < 1:
            raise ShapeError(f"a window needs at least one pixel, got {new[0]} x {new[1]}")
        if isinstance(self.position_bias, OffsetTable):
            table = self.position_bias.table
            resized = resize_window_table(table, self.window_size, new).clone()
            self.position_bias.table = nn.Parameter(resized, requires_grad=table.requires_grad)
        self.window_size = self.position_bias.window_size = new

    def extra_repr(self) -> str:
        return f"{self.channels}, num_heads={self.num_heads}, window_size={self.window_size}, shift={self.shift}"

    def _project(self, pixels: Tensor, cut: Partition) -> Tensor:
        """(B, H, W, C) to (B, H, W, 3 C), in the order of the cut image."""
        bias = self.qkv.bias
        if self.version == 2 and self.q_bias is not None and self.v_bias is not None:
            bias = torch.cat([self.q_bias, torch.zeros_like(self.q_bias), self.v_bias])
        return _reordered(F.linear(pixels, self.qkv.weight, bias), cut)

    def _cells(self, part: Tensor, bias: Tensor, down: Segment, right: Segment) -> Tensor:
        """Attention inside the cells of one size: (B, rows, columns, 3 C) of that part of the image to (.., C)."""
        query, key, value, added, scale = self._split(part, bias, down, right)
        dropout = self.dropout if self.training else 0.0
        mixed = attention(query, key, value, bias=added, scale=scale, dropout=dropout)  # (B n, h, N, D)
        windows = mixed.transpose(1, 2).reshape(len(part), down.count * right.count, down.size * right.size, -1)
        return window_merge(windows, (down.size, right.size), (down.count * down.size, right.count * right.size))

    def _cell_weights(self, part: Tensor, bias: Tensor, down: Segment, right: Segment) -> Tensor:
        query, key, _, added, scale = self._split(part, bias, down, right)
        weights = attention_weights(query, key, bias=added, scale=scale)  # (B n, h, N, N)
        cell = (down.size, right.size)
        shaped = weights.reshape(len(part), down.count, right.count, self.num_heads, *cell, *cell)
        return shaped.permute(0, 3, 1, 2, 4, 5, 6, 7)

    def _split(self, part: Tensor, bias: Tensor, down: Segment, right: Segment):
        """Query, key and value (B n, h, N, D) of the n cells of one size, their bias (1, h, N, N), and the scale."""
        windows = window_partition(part, (down.size, right.size))  # (B, n, N, 3 C)
        query, key, value = windows.flatten(0, 1).unflatten(2, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4)
        added = bias[:, : down.size, : right.size, : down.size, : right.size].flatten(3, 4).flatten(1, 2)[None]
        if self.version == 1:
            return query, key, value, added, None
        temperature = self.log_temperature.clamp(max=math.log(MAX_TEMPERATURE)).exp()
        return _unit(query) * temperature.to(query.dtype), _unit(key), value, added, 1.0


def both(size: int | tuple[int, int]) -> tuple[int, int]:
    """Rows and columns, from one number or two."""
    return (size, size) if isinstance(size, int) else (int(size[0]), int(size[1]))


def _apart(pixels: Tensor, segments: tuple[Segment, ...], *, dim: int) -> tuple[Tensor, ...]:
    """One part per segment. By one split: slices would each give back a gradient of the whole image, mostly zeros."""
    return pixels.split([segment.count * segment.size for segment in segments], dim=dim)


def _unit(x: Tensor) -> Tensor:
    """Vectors of length 1; the length is taken in float32, for the smallest allowed one is 0 in 16 bits."""
    return F.normalize(x.to(torch.promote_types(x.dtype, torch.float32)), dim=-1).to(x.dtype)


def _reordered(pixels: Tensor, cut: Partition, *, back: bool = False) -> Tensor:
    """(B, H, W, F), with rows and columns brought into the order of the cut image, or back."""
    for axis, order in ((1, cut.row_order), (2, cut.column_order)):
        if order is not None:
            taken = torch.tensor(order, device=pixels.device)
            pixels = pixels.index_select(axis, taken.argsort() if back else taken)
    return pixels
