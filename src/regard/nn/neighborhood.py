"""Neighbourhood attention in two dimensions: every pixel sees the square of pixels nearest to it.

Axes: B images, C channels, H rows, W columns, h heads, D channels of a head, k side of the square.
Source: Hassani et al. 2023, arXiv:2204.07143, section 3.1. Pixel i of an axis of length L sees k pixels from
clamp(i - (k - 1) / 2, 0, L - k) on: at a border the square does not shrink, it stays inside. Where L < k it sees the axis.
Cost: pixels are taken in tiles of k x k, each with the (2 k - 1) x (2 k - 1) keys its pixels may see and a mask among them,
so that nothing of size (H W) x (H W) is made.
"""

from __future__ import annotations

from operator import index
from typing import NamedTuple

import torch
from torch import Tensor, nn

from regard.core.attention import attention
from regard.core.errors import ShapeError
from regard.nn.feature_map import check_map


class NeighborhoodAttention2D(nn.Module):
    """Self-attention of every pixel to the k x k pixels around it.

    Args:
        channels: C.
        num_heads: h, divides C.
        kernel_size: k, odd.
        qkv_bias: Whether queries, keys and values have biases.
        dropout: Probability with which a weight is dropped while training.

    Shapes: (B, C, H, W) in and out, any H and W; the output lies channels last in memory.

    >>> NeighborhoodAttention2D(8, 2, kernel_size=3)(torch.ones(1, 8, 5, 9)).shape
    torch.Size([1, 8, 5, 9])
    """

    def __init__(
        self,
        channels: int,
        num_heads: int,
        *,
        kernel_size: int = 7,
        qkv_bias: bool = True,
        dropout: float = 0.0,
        device: torch.device | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if num_heads < 1 or channels % num_heads:
            raise ShapeError(f"{channels} channels do not divide into {num_heads} heads")
        if kernel_size < 1 or kernel_size % 2 == 0:
            raise ShapeError(f"kernel_size {kernel_size} has no middle; give an odd number such as 7")
        self.channels, self.num_heads, self.kernel_size, self.dropout = channels, num_heads, kernel_size, dropout
        self.qkv = nn.Linear(channels, 3 * channels, bias=qkv_bias, device=device, dtype=dtype)
        self.out_proj = nn.Linear(channels, channels, device=device, dtype=dtype)

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) to the same."""
        check_map(x, self.channels, self)
        down, right = (_tiles(index(length), self.kernel_size) for length in x.shape[2:])
        query, key, value = self.qkv(x.permute(0, 2, 3, 1)).chunk(3, dim=-1)  # (B, H, W, C)
        query = self._tiled(query, down.queries, right.queries)  # (B n, h, t u, D): n tiles of t x u pixels
        key, value = (self._tiled(part, down.keys, right.keys) for part in (key, value))  # (B n, h, s r, D)
        attend = down.attend[:, None, :, None, :, None] & right.attend[None, :, None, :, None, :]  # (., ., t, u, s, r)
        attend = attend.flatten(4).flatten(2, 3).flatten(0, 1).to(x.device)  # (n, t u, s r)
        mask = attend.expand(len(x), -1, -1, -1).flatten(0, 1)[:, None]
        mixed = attention(query, key, value, mask=mask, dropout=self.dropout if self.training else 0.0)
        return self.out_proj(self._untiled(mixed, down, right)).permute(0, 3, 1, 2)

    def extra_repr(self) -> str:
        return f"{self.channels}, num_heads={self.num_heads}, kernel_size={self.kernel_size}"

    def _tiled(self, pixels: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
        """(B, H, W, C), and per axis the pixels of each tile (n, t), to (B tiles, h, t u, D)."""
        rows, columns = rows.to(pixels.device), columns.to(pixels.device)
        taken = pixels[:, rows[:, :, None, None], columns[None, None]]  # (B, n, t, m, u, C)
        tiles = taken.transpose(2, 3).flatten(3, 4).flatten(0, 2)  # (B n m, t u, C)
        return tiles.unflatten(2, (self.num_heads, -1)).transpose(1, 2)

    def _untiled(self, mixed: Tensor, down: _Tiles, right: _Tiles) -> Tensor:
        """(B tiles, h, t u, D) to (B, H, W, C)."""
        (n, t), (m, u) = down.queries.shape, right.queries.shape
        tiles = mixed.transpose(1, 2).flatten(2).reshape(-1, n, m, t, u, self.channels).transpose(2, 3)
        pixels = tiles.flatten(3, 4).flatten(1, 2)  # (B, n t, m u, C)
        home_rows, home_columns = down.home.to(mixed.device), right.home.to(mixed.device)
        return pixels.index_select(1, home_rows).index_select(2, home_columns)


class _Tiles(NamedTuple):
    """One axis in n tiles of t pixels: their pixels (n, t), the keys they need (n, s), who sees whom (n, t, s), and where
    each pixel's result stands among the n t results (L,)."""

    queries: Tensor
    keys: Tensor
    attend: Tensor
    home: Tensor


def _tiles(length: int, kernel: int) -> _Tiles:
    size, seen = min(kernel, length), min(kernel, length)
    span = min(length, size + seen - 1)
    first = torch.arange(0, length, size).clamp(max=length - size)  # the last tile overlaps the one before
    queries = first[:, None] + torch.arange(size)  # (n, t)
    start = (queries - kernel // 2).clamp(0, length - seen)  # (n, t): the first pixel that each sees
    keys = start[:, :1].clamp(max=length - span) + torch.arange(span)  # (n, s)
    attend = (keys[:, None] >= start[:, :, None]) & (keys[:, None] < start[:, :, None] + seen)
    pixel = torch.arange(length)
    tile = pixel // size
    return _Tiles(queries, keys, attend, tile * size + pixel - first[tile])
