"""Coordinate attention: a gate per channel and row, and a gate per channel and column, so that the place is kept.

Axes: B images, C channels, H rows, W columns.
Source: Hou et al. 2021, arXiv:2103.02907, equations 4 to 8: the means of all rows and of all columns go through one shared
1 x 1 convolution, part again, and become two gates. Left open there: the non-linearity (hard-swish, as in the authors'
code), the floor of the bottleneck (8, as there), biases (present, as there; timm has none).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.nn.feature_map import Gated, check_map, is_channels_last, reduced_channels
from regard.nn.identity_start import blend_gate, make_blend
from regard.nn.map_pooling import mean_over_columns, mean_over_rows


class CoordinateAttention(nn.Module):
    """Scale pixel (i, j) of every channel by the gate of row i times the gate of column j.

    Args:
        channels: C.
        reduction: The bottleneck has `channels // reduction` channels ...
        min_channels: ... and never fewer than these.
        bias: Whether the three convolutions have biases.
        norm: Makes the layer after the shared convolution from its number of channels, or None. With the default, a
            training step mixes statistics across the batch, as everywhere in a network with BatchNorm.
        zero_init: Start as the identity (see `identity_start`), for insertion into a pretrained network.

    Shapes: (B, C, H, W) in and out, any H and W. Parameter names are those of the authors and of timm.

    >>> CoordinateAttention(32)(torch.ones(1, 32, 5, 7)).shape
    torch.Size([1, 32, 5, 7])
    """

    def __init__(
        self,
        channels: int,
        *,
        reduction: int = 32,
        min_channels: int = 8,
        bias: bool = True,
        norm: Callable[[int], nn.Module] | None = nn.BatchNorm2d,
        zero_init: bool = False,
        device: torch.device | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        narrow = reduced_channels(channels, reduction, min_channels)
        self.channels = channels
        self.conv1 = nn.Conv2d(channels, narrow, 1, bias=bias, device=device, dtype=dtype)
        self.bn1 = nn.Identity() if norm is None else norm(narrow).to(device=device, dtype=dtype)
        self.conv_h = nn.Conv2d(narrow, channels, 1, bias=bias, device=device, dtype=dtype)
        self.conv_w = nn.Conv2d(narrow, channels, 1, bias=bias, device=device, dtype=dtype)
        self.blend = make_blend(zero_init, device=device, dtype=dtype)

    def gate(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The gates of rows (B, C, H, 1) and of columns (B, C, 1, W)."""
        check_map(x, self.channels, self)
        rows, columns = x.shape[2:]
        line = torch.cat([mean_over_columns(x), mean_over_rows(x).transpose(2, 3)], dim=2)  # (B, C, H + W, 1)
        line = F.hardswish(self.bn1(self.conv1(line)))  # (B, C / r, H + W, 1)
        by_row, by_column = line.split([rows, columns], dim=2)
        row_gate = torch.sigmoid(self.conv_h(by_row))  # (B, C, H, 1)
        column_gate = torch.sigmoid(self.conv_w(by_column.transpose(2, 3)))  # (B, C, 1, W)
        return blend_gate(row_gate, self.blend), blend_gate(column_gate, self.blend)

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) to the same: `x` times the gate of its row times the gate of its column."""
        return _times(x, *self.gate(x))

    def inspect(self, x: Tensor) -> Gated:
        """The output and {"rows": (B, C, H, 1), "columns": (B, C, 1, W)}; output = x * rows * columns."""
        by_row, by_column = self.gate(x)
        return Gated(_times(x, by_row, by_column), {"rows": by_row, "columns": by_column})

    def extra_repr(self) -> str:
        return f"{self.channels}, bottleneck={self.conv1.out_channels}"


def _times(x: Tensor, by_row: Tensor, by_column: Tensor) -> Tensor:
    """x * by_column * by_row, through the channels' own axis where they lie side by side: forward, and the sums backward."""
    if not is_channels_last(x):
        return x * by_column * by_row
    pixels, down, right = (part.permute(0, 2, 3, 1) for part in (x, by_row, by_column))
    return (pixels * right.contiguous() * down.contiguous()).permute(0, 3, 1, 2)
