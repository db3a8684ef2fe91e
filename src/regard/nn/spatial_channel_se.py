"""Concurrent squeeze-and-excitation: a channel gate and a pixel gate side by side, their two results combined.

Axes: B images, C channels, H rows, W columns.
Source: Roy et al. 2018, arXiv:1803.02579: output = x * channel + x * spatial, with the channel gate of squeeze-and-excitation
and spatial = sigmoid(conv_1x1(x)). Their later paper (arXiv:1808.08127) also takes the larger of the two:
`combine=torch.maximum`.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from regard.nn.feature_map import Gated
from regard.nn.identity_start import make_blend
from regard.nn.squeeze_excitation import SqueezeExcitation


class SpatialChannelSE(nn.Module):
    """Gate channels and pixels independently of each other and combine the two maps.

    Args:
        channels: C.
        reduction: The bottleneck of the channel gate has `channels // reduction` channels ...
        min_channels: ... and never fewer than these.
        combine: Joins the two gated maps, each (B, C, H, W).
        zero_init: Start as the identity (see `identity_start`), for insertion into a pretrained network.

    Shapes: (B, C, H, W) in and out, any H and W.

    >>> SpatialChannelSE(32)(torch.ones(1, 32, 5, 7)).shape
    torch.Size([1, 32, 5, 7])
    """

    def __init__(
        self,
        channels: int,
        *,
        reduction: int = 16,
        min_channels: int = 4,
        combine: Callable[[Tensor, Tensor], Tensor] = torch.add,
        zero_init: bool = False,
        device: torch.device | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.channel = SqueezeExcitation(
            channels, reduction=reduction, min_channels=min_channels, device=device, dtype=dtype
        )
        self.spatial = nn.Conv2d(channels, 1, 1, device=device, dtype=dtype)
        self.combine = combine
        self.blend = make_blend(zero_init, device=device, dtype=dtype)

    @property
    def channels(self) -> int:
        """C."""
        return self.channel.channels

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) to the same: the two gated maps, combined."""
        return self.inspect(x).output

    def inspect(self, x: Tensor) -> Gated:
        """The output and {"channel": (B, C, 1, 1), "spatial": (B, 1, H, W)}; output = combine(x * channel, x * spatial).

        With `zero_init` the output is `x + blend * (that - x)`.
        """
        channel, spatial = self.channel.gate(x), torch.sigmoid(self.spatial(x))
        output = self.combine(x * channel, x * spatial)
        if self.blend is not None:
            output = x + self.blend * (output - x)
        return Gated(output, {"channel": channel, "spatial": spatial})
