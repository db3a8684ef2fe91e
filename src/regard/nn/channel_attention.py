"""The channel half of CBAM: one gate per channel, from the mean and the maximum of every channel through one shared MLP.

Axes: B images, C channels, H rows, W columns.
Source: Woo et al. 2018, arXiv:1807.06521, equation 2: gate = sigmoid(MLP(mean(x)) + MLP(max(x))).
Left open there: biases of the MLP (none here, as the formula writes none) and who gets the gradient of a tie for the
maximum (the first of the largest pixels).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.nn.feature_map import Gated, check_map, reduced_channels
from regard.nn.identity_start import blend_gate, make_blend
from regard.nn.map_pooling import mean_and_max_over_space


class ChannelAttention(nn.Module):
    """Scale every channel by a number in (0, 1) that depends on the means and maxima of all channels.

    Args:
        channels: C.
        reduction: The bottleneck of the shared MLP has `channels // reduction` channels ...
        min_channels: ... and never fewer than these.
        bias: Whether the two layers of the MLP have biases.
        zero_init: Start as the identity (see `identity_start`), for insertion into a pretrained network.

    Shapes: (B, C, H, W) in and out, any H and W. Position is lost in the gate: it is the same at every pixel.

    >>> ChannelAttention(32)(torch.ones(1, 32, 5, 7)).shape
    torch.Size([1, 32, 5, 7])
    """

    def __init__(
        self,
        channels: int,
        *,
        reduction: int = 16,
        min_channels: int = 4,
        bias: bool = False,
        zero_init: bool = False,
        device: torch.device | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        narrow = reduced_channels(channels, reduction, min_channels)
        self.channels = channels
        self.fc1 = nn.Conv2d(channels, narrow, 1, bias=bias, device=device, dtype=dtype)
        self.fc2 = nn.Conv2d(narrow, channels, 1, bias=bias, device=device, dtype=dtype)
        self.blend = make_blend(zero_init, device=device, dtype=dtype)

    def gate(self, x: Tensor) -> Tensor:
        """The channel gate: (B, C, H, W) to (B, C, 1, 1)."""
        check_map(x, self.channels, self)
        mean, largest = mean_and_max_over_space(x)  # (B, C, 1, 1) each
        logit = self.fc2(torch.relu(self.fc1(mean))) + self.fc2(torch.relu(self.fc1(largest)))
        return blend_gate(torch.sigmoid(logit), self.blend)

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) to the same: `x` times the channel gate."""
        return x * self.gate(x)

    def inspect(self, x: Tensor) -> Gated:
        """The output and {"channel": (B, C, 1, 1)}; output = x * channel."""
        gate = self.gate(x)
        return Gated(x * gate, {"channel": gate})

    def extra_repr(self) -> str:
        return f"{self.channels}, bottleneck={self.fc1.out_channels}"
