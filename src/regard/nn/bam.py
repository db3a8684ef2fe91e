"""BAM: a channel branch and a dilated spatial branch, added and squashed into one gate per channel and pixel.

Axes: B images, C channels, H rows, W columns.
Source: Park et al. 2018, arXiv:1807.06514, equations 1 to 4: output = x + x * sigmoid(Mc(x) + Ms(x)), with
Mc = BN(MLP(mean(x))) and Ms = BN(conv1(conv3(conv3(conv1(x))))), the two 3 x 3 convolutions dilated by 4.
Left open there: the border of the dilated convolutions (padded so that H and W stay, at any size) and the norms inside the
branches (after every convolution but the last, as in the authors' code).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from regard.core.errors import ShapeError
from regard.nn.feature_map import Gated, check_map, reduced_channels
from regard.nn.identity_start import blend_gate, make_blend


class BAM(nn.Module):
    """Strengthen every channel of every pixel by a factor in (1, 2).

    Args:
        channels: C.
        reduction: Both branches narrow to `channels // reduction` channels ...
        min_channels: ... and never fewer than these.
        dilation: Of the two 3 x 3 convolutions of the spatial branch.
        norm: Makes a norm from its number of channels, or None for no norms at all.
        zero_init: Start as the identity (see `identity_start`), for insertion into a pretrained network.

    Shapes: (B, C, H, W) in and out, any H and W.

    Raises:
        ShapeError: Training with BatchNorm and a batch of one: the channel branch then has one value per channel.

    >>> BAM(32).eval()(torch.ones(1, 32, 5, 7)).shape
    torch.Size([1, 32, 5, 7])
    """

    def __init__(
        self,
        channels: int,
        *,
        reduction: int = 16,
        min_channels: int = 4,
        dilation: int = 4,
        norm: Callable[[int], nn.Module] | None = nn.BatchNorm2d,
        zero_init: bool = False,
        device: torch.device | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        narrow = reduced_channels(channels, reduction, min_channels)
        norms = norm or (lambda width: nn.Identity())
        self.channels = channels
        self.channel = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(channels, narrow, 1),
            norms(narrow),
            nn.ReLU(),
            nn.Conv2d(narrow, channels, 1),
            norms(channels),
        ).to(device=device, dtype=dtype)
        spatial = [nn.Conv2d(channels, narrow, 1), norms(narrow), nn.ReLU()]
        for _ in range(2):
            spatial += [nn.Conv2d(narrow, narrow, 3, padding=dilation, dilation=dilation), norms(narrow), nn.ReLU()]
        spatial += [nn.Conv2d(narrow, 1, 1), norms(1)]
        self.spatial = nn.Sequential(*spatial).to(device=device, dtype=dtype)
        self.blend = make_blend(zero_init, device=device, dtype=dtype)

    def gate(self, x: Tensor) -> Tensor:
        """The factor `1 + sigmoid(Mc + Ms)`: (B, C, H, W) to (B, C, H, W)."""
        check_map(x, self.channels, self)
        if self.training and len(x) == 1 and isinstance(self.channel[2], nn.BatchNorm2d):
            raise ShapeError(
                "BAM with BatchNorm cannot train on a batch of 1: its channel branch has one value per channel; "
                "give norm=None, or a batch of 2 or more"
            )
        return blend_gate(1 + torch.sigmoid(self.channel(x) + self.spatial(x)), self.blend)

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) to the same: `x` times the factor of its channel and pixel."""
        return x * self.gate(x)

    def inspect(self, x: Tensor) -> Gated:
        """The output and {"factor": (B, C, H, W)}, in (1, 2); output = x * factor."""
        gate = self.gate(x)
        return Gated(x * gate, {"factor": gate})
