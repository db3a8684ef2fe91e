"""What a window adds to its scores for the offset of two pixels: a learned table, or a small network over log-spaced offsets.

Axes: h heads, wh and ww rows and columns of a window; the order of offsets is that of `regard.core.bias.window_table`.
Sources: the table, Liu et al. 2021, arXiv:2103.14030, equation 4; the network, Liu et al. 2022, arXiv:2111.09883, section 3.3.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from regard.core.bias import window_table


class OffsetTable(nn.Module):
    """One learned number per head and offset.

    Shapes: `forward()` gives (h, wh, ww, wh, ww): query pixel, then key pixel.
    """

    def __init__(
        self,
        window_size: tuple[int, int],
        num_heads: int,
        *,
        device: torch.device | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.window_size = window_size
        offsets = (2 * window_size[0] - 1) * (2 * window_size[1] - 1)
        self.table = nn.Parameter(torch.empty(offsets, num_heads, device=device, dtype=dtype))
        nn.init.trunc_normal_(self.table, std=0.02)

    def forward(self) -> Tensor:
        """(h, wh, ww, wh, ww)."""
        return by_pixel_pair(self.table, self.window_size)


class LogSpacedOffsets(nn.Module):
    """A number per head and offset from a network of two layers, between 0 and 16; it carries over to other windows.

    Offsets are divided by the largest one of `pretrained_window` and taken to
    sign(d) log2(1 + 8 |d|) / log2(8), which spaces them by their logarithm.

    Shapes: `forward()` gives (h, wh, ww, wh, ww): query pixel, then key pixel.
    """

    def __init__(
        self,
        window_size: tuple[int, int],
        num_heads: int,
        *,
        pretrained_window: tuple[int, int] | None = None,
        device: torch.device | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.window_size = window_size
        self.pretrained_window = pretrained_window or window_size
        self.hidden = nn.Linear(2, 512, device=device, dtype=dtype)
        self.out = nn.Linear(512, num_heads, bias=False, device=device, dtype=dtype)

    def forward(self) -> Tensor:
        """(h, wh, ww, wh, ww)."""
        offsets = log_spaced_offsets(self.window_size, self.pretrained_window).to(self.hidden.weight)
        table = 16 * torch.sigmoid(self.out(torch.relu(self.hidden(offsets))))
        return by_pixel_pair(table, self.window_size)


def by_pixel_pair(table: Tensor, window_size: tuple[int, int]) -> Tensor:
    """Look up the offset of every pair of pixels: (offsets, h) to (h, wh, ww, wh, ww).

    A smaller window with the same corner is a slice of it, for the offset of two pixels does not depend on the window.
    """
    return window_table(table, window_size)[0].unflatten(2, window_size).unflatten(1, window_size)


def log_spaced_offsets(window_size: tuple[int, int], pretrained_window: tuple[int, int]) -> Tensor:
    """((2 wh - 1) (2 ww - 1), 2): every offset, down and right, on the logarithmic scale."""
    axes = []
    for window, trained in zip(window_size, pretrained_window):
        step = 8 * torch.arange(1 - window, window, dtype=torch.float32) / max(trained - 1, 1)
        axes.append(step.sign() * torch.log2(step.abs() + 1) / math.log2(8))
    return torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1).reshape(-1, 2)
