"""The spatial half of CBAM: one gate per pixel, from the mean and the maximum over channels through one convolution.

Axes: B images, C channels, H rows, W columns.
Source: Woo et al. 2018, arXiv:1807.06521, equation 3: gate = sigmoid(conv_k([mean(x); max(x)])), k = 7.
Left open there: a normalisation after the convolution. The formula has none, and so has this layer; the authors' code
and timm have a BatchNorm, which `norm=nn.BatchNorm2d` adds.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from regard.core.errors import ShapeError
from regard.nn.feature_map import Gated
from regard.nn.identity_start import blend_gate, make_blend
from regard.nn.map_pooling import mean_and_max_over_channels


class SpatialAttention(nn.Module):
    """Scale every pixel by a number in (0, 1) that depends on the pixels around it.

    Args:
        kernel_size: Side of the square a gate sees, odd.
        norm: Makes the layer between convolution and sigmoid from its number of channels (1), or None.
        zero_init: Start as the identity (see `identity_start`), for insertion into a pretrained network.

    Shapes: (B, C, H, W) in and out, any C, H and W. The gate is the same for all channels.

    Raises:
        ShapeError: `kernel_size` is even; or an input that has not four axes.

    >>> SpatialAttention()(torch.ones(1, 32, 5, 7)).shape
    torch.Size([1, 32, 5, 7])
    """

    def __init__(
        self,
        kernel_size: int = 7,
        *,
        norm: Callable[[int], nn.Module] | None = None,
        zero_init: bool = False,
        device: torch.device | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if kernel_size % 2 == 0 or kernel_size < 1:
            raise ShapeError(f"kernel_size {kernel_size} has no middle; give an odd number such as 7")
        half = kernel_size // 2
        self.conv = nn.Conv2d(2, 1, kernel_size, padding=half, bias=False, device=device, dtype=dtype)
        self.norm = nn.Identity() if norm is None else norm(1).to(device=device, dtype=dtype)
        self.blend = make_blend(zero_init, device=device, dtype=dtype)

    def gate(self, x: Tensor) -> Tensor:
        """The spatial gate: (B, C, H, W) to (B, 1, H, W)."""
        if x.ndim != 4:
            raise ShapeError(f"SpatialAttention takes (B, C, H, W), got {x.ndim} axes: {tuple(x.shape)}")
        seen = torch.cat(mean_and_max_over_channels(x), dim=1)  # (B, 2, H, W)
        return blend_gate(torch.sigmoid(self.norm(self.conv(seen))), self.blend)

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) to the same: `x` times the spatial gate."""
        return x * self.gate(x)

    def inspect(self, x: Tensor) -> Gated:
        """The output and {"spatial": (B, 1, H, W)}; output = x * spatial."""
        gate = self.gate(x)
        return Gated(x * gate, {"spatial": gate})
