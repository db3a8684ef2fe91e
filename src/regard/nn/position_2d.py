"""Positions of an image: the row written into one half of the channels, the column into the other.

Axes: B images, C channels, H rows, W columns, h heads, D channels of a head. Pixels are counted along rows.
Sources: Vaswani et al. 2017, arXiv:1706.03762, section 3.5, and Su et al. 2021, arXiv:2104.09864, used on each axis alone,
as Carion et al. 2020, arXiv:2005.12872 (sinusoidal) and Heo et al. 2024, arXiv:2403.13298 (axial rotary, base 100) do.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import torch
from torch import Tensor

from regard.core.errors import ShapeError
from regard.core.position import Pairing, Rotary, Sinusoidal


@dataclass(frozen=True)
class Sinusoidal2D:
    """Add sines and cosines of the row to the first half of the channels, and of the column to the second.

    Attributes:
        channels: C, a multiple of 4, so that both halves hold pairs.
        base: Ratio of the longest to the shortest wavelength.
    """

    channels: int
    base: float = 10_000.0

    def __post_init__(self) -> None:
        if self.channels < 4 or self.channels % 4:
            raise ShapeError(f"channels must be a multiple of 4, two pairs for rows and columns, got {self.channels}")

    def encode(self, rows: int, columns: int, *, dtype: torch.dtype = torch.float32, device=None) -> Tensor:
        """(C, H, W): the encoding of an image of any size."""
        half = Sinusoidal(self.channels // 2, self.base)
        down = half.encode(torch.arange(rows, device=device), dtype=dtype).T[:, :, None]  # (C / 2, H, 1)
        right = half.encode(torch.arange(columns, device=device), dtype=dtype).T[:, None]  # (C / 2, 1, W)
        return torch.cat([down.expand(-1, -1, columns), right.expand(-1, rows, -1)])

    def __call__(self, x: Tensor) -> Tensor:
        """x + encoding: (B, C, H, W) to the same."""
        if x.ndim != 4 or x.shape[1] != self.channels:
            raise ShapeError(f"made for (B, {self.channels}, H, W), got {tuple(x.shape)}")
        return x + self.encode(*x.shape[2:], dtype=x.dtype, device=x.device)


@dataclass(frozen=True)
class Rotary2D:
    """Turn the first half of a head's channels by the row and the second by the column.

    Scores of a turned query and a turned key depend on how far they are apart on both axes, not on where they are.

    Attributes:
        head_dim: D, a multiple of 4.
        pairing: "half" or "interleaved", inside each half, see `Rotary`.
        base: Pair i of a half turns by position * base ** (-4 i / D).
    """

    head_dim: int
    _: KW_ONLY
    pairing: Pairing
    base: float = 100.0

    def __post_init__(self) -> None:
        if self.head_dim < 4 or self.head_dim % 4:
            raise ShapeError(f"head_dim must be a multiple of 4, two pairs for rows and columns, got {self.head_dim}")

    def __call__(self, x: Tensor, size: tuple[int, int]) -> Tensor:
        """Turn queries or keys.

        Args:
            x: (B, h, H W, D).
            size: H and W.

        Returns:
            The same shape and dtype.
        """
        rows, columns = size
        if x.shape[-2] != rows * columns or x.shape[-1] != self.head_dim:
            raise ShapeError(
                f"rotary for {self.head_dim} channels of {rows} x {columns} = {rows * columns} pixels got {tuple(x.shape)}"
            )
        half = Rotary(self.head_dim // 2, pairing=self.pairing, base=self.base)
        down = torch.arange(rows, device=x.device).repeat_interleave(columns)
        right = torch.arange(columns, device=x.device).repeat(rows)
        first, second = x.chunk(2, dim=-1)
        return torch.cat([half(first, down), half(second, right)], dim=-1)
