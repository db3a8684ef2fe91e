"""Squeeze-and-excitation: one gate per channel, computed from the mean of every channel.

Axes: B images, C channels, H rows, W columns.
Source: Hu et al. 2018, arXiv:1709.01507, equations 2 to 4: gate = sigmoid(W2 relu(W1 mean(x))).
Left open there: the width of the bottleneck when `channels / reduction` is small (floored here at `min_channels`) and
biases (present here, as in torchvision and timm, whose parameter names `fc1` and `fc2` these are).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.nn.feature_map import Gated, check_map, reduced_channels
from regard.nn.identity_start import blend_gate, make_blend


class SqueezeExcitation(nn.Module):
    """Scale every channel by a number in (0, 1) that depends on the means of all channels.

    Args:
        channels: C.
        reduction: The bottleneck has `channels // reduction` channels ...
        min_channels: ... and never fewer than these.
        zero_init: Start as the identity (see `identity_start`), for insertion into a pretrained network.

    Shapes: (B, C, H, W) in and out, any H and W. Position is lost in the gate: it is the same at every pixel.

    >>> SqueezeExcitation(32)(torch.ones(1, 32, 5, 7)).shape
    torch.Size([1, 32, 5, 7])
    """

    def __init__(
        self,
        channels: int,
        *,
        reduction: int = 16,
        min_channels: int = 4,
        zero_init: bool = False,
        device: torch.device | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        narrow = reduced_channels(channels, reduction, min_channels)
        self.channels = channels
        self.fc1 = nn.Conv2d(channels, narrow, 1, device=device, dtype=dtype)
        self.fc2 = nn.Conv2d(narrow, channels, 1, device=device, dtype=dtype)
        self.blend = make_blend(zero_init, device=device, dtype=dtype)

    def gate(self, x: Tensor) -> Tensor:
        """The channel gate: (B, C, H, W) to (B, C, 1, 1)."""
        check_map(x, self.channels, self)
        squeezed = x.mean((2, 3), keepdim=True)  # (B, C, 1, 1)
        excited = self.fc2(torch.relu(self.fc1(squeezed)))  # (B, C, 1, 1)
        return blend_gate(torch.sigmoid(excited), self.blend)

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) to the same: `x` times the channel gate."""
        return x * self.gate(x)

    def inspect(self, x: Tensor) -> Gated:
        """The output and {"channel": (B, C, 1, 1)}; output = x * channel."""
        gate = self.gate(x)
        return Gated(x * gate, {"channel": gate})

    def extra_repr(self) -> str:
        return f"{self.channels}, bottleneck={self.fc1.out_channels}"
