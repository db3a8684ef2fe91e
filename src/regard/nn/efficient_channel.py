"""Efficient channel attention: a channel gate from a short 1-D convolution over the channel means, with no bottleneck.

Axes: B images, C channels, H rows, W columns.
Source: Wang et al. 2020, arXiv:1910.03151, equations 9 and 12: gate = sigmoid(conv1d_k(mean(x))), with k the odd number
next to log2(C) / 2 + 1 / 2. Left open there: the border of the channel axis (zeros, as in the authors' code) and the
rounding (down, then up to odd, as in the authors' code; timm takes at least 3, which `kernel_size=3` gives).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from regard.core.errors import ShapeError
from regard.nn.feature_map import Gated, check_map
from regard.nn.identity_start import blend_gate, make_blend


def adaptive_kernel(channels: int, *, gamma: float = 2.0, offset: float = 1.0) -> int:
    """The odd kernel size that grows with the logarithm of the channels.

    >>> [adaptive_kernel(c) for c in (1, 16, 64, 256, 512)]
    [1, 3, 3, 5, 5]
    """
    size = int(abs((math.log2(channels) + offset) / gamma))
    return size if size % 2 else size + 1


class EfficientChannelAttention(nn.Module):
    """Scale every channel by a number in (0, 1) that depends on the means of its neighbours on the channel axis.

    Args:
        channels: C.
        kernel_size: How many neighbouring channels a gate sees, odd. None: `adaptive_kernel(channels)`.
        zero_init: Start as the identity (see `identity_start`), for insertion into a pretrained network.

    Shapes: (B, C, H, W) in and out, any H and W. The layer has `kernel_size` weights, whatever C is.

    Raises:
        ShapeError: `kernel_size` is even, so that no channel would stand in the middle.

    >>> EfficientChannelAttention(64)(torch.ones(1, 64, 5, 7)).shape
    torch.Size([1, 64, 5, 7])
    """

    def __init__(
        self,
        channels: int,
        *,
        kernel_size: int | None = None,
        zero_init: bool = False,
        device: torch.device | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if channels < 1:
            raise ShapeError(f"channels must be 1 or more, got {channels}")
        size = adaptive_kernel(channels) if kernel_size is None else kernel_size
        if size % 2 == 0 or size < 1:
            raise ShapeError(f"kernel_size {size} has no middle; give an odd number such as {max(size, 0) + 1}")
        self.channels = channels
        self.conv = nn.Conv1d(1, 1, size, padding=size // 2, bias=False, device=device, dtype=dtype)
        self.blend = make_blend(zero_init, device=device, dtype=dtype)

    def gate(self, x: Tensor) -> Tensor:
        """The channel gate: (B, C, H, W) to (B, C, 1, 1)."""
        check_map(x, self.channels, self)
        means = x.mean((2, 3))  # (B, C)
        mixed = self.conv(means[:, None])[:, 0]  # (B, C)
        return blend_gate(torch.sigmoid(mixed), self.blend)[:, :, None, None]

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) to the same: `x` times the channel gate."""
        return x * self.gate(x)

    def inspect(self, x: Tensor) -> Gated:
        """The output and {"channel": (B, C, 1, 1)}; output = x * channel."""
        gate = self.gate(x)
        return Gated(x * gate, {"channel": gate})

    def extra_repr(self) -> str:
        return f"{self.channels}"
