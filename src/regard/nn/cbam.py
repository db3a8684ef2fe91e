"""CBAM: what to look at (a gate per channel), then where (a gate per pixel).

Axes: B images, C channels, H rows, W columns.
Source: Woo et al. 2018, arXiv:1807.06521, equation 1: first the channel gate, then the spatial gate of the result.
Left open there: see `channel_attention` and `spatial_attention`.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from regard.nn.channel_attention import ChannelAttention
from regard.nn.feature_map import Gated
from regard.nn.spatial_attention import SpatialAttention


class CBAM(nn.Module):
    """A channel gate, then a spatial gate that sees the gated channels.

    Args:
        channels: C.
        reduction: The bottleneck of the channel gate has `channels // reduction` channels ...
        min_channels: ... and never fewer than these.
        kernel_size: Side of the square that the spatial gate sees, odd.
        bias: Whether the MLP of the channel gate has biases.
        norm: A layer in the spatial gate (`nn.BatchNorm2d` for the authors' code and timm), or None as in the formula.
        zero_init: Start as the identity (see `identity_start`), for insertion into a pretrained network.

    Shapes: (B, C, H, W) in and out, any H and W.

    >>> CBAM(32)(torch.ones(1, 32, 5, 7)).shape
    torch.Size([1, 32, 5, 7])
    """

    def __init__(
        self,
        channels: int,
        *,
        reduction: int = 16,
        kernel_size: int = 7,
        min_channels: int = 4,
        bias: bool = False,
        norm: Callable[[int], nn.Module] | None = None,
        zero_init: bool = False,
        device: torch.device | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.channel = ChannelAttention(
            channels,
            reduction=reduction,
            min_channels=min_channels,
            bias=bias,
            zero_init=zero_init,
            device=device,
            dtype=dtype,
        )
        self.spatial = SpatialAttention(kernel_size, norm=norm, zero_init=zero_init, device=device, dtype=dtype)

    @property
    def channels(self) -> int:
        """C."""
        return self.channel.channels

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) to the same: the channel gate, then the spatial gate."""
        return self.spatial(self.channel(x))

    def inspect(self, x: Tensor) -> Gated:
        """The output and {"channel": (B, C, 1, 1), "spatial": (B, 1, H, W)}; output = x * channel * spatial."""
        gated, channel = self.channel.inspect(x)
        output, spatial = self.spatial.inspect(gated)
        return Gated(output, {**channel, **spatial})
