"""A feature map: what it must be, in which order it lies in memory, and what a gate module says about it.

Axes: B images, C channels, H rows, W columns.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from regard.core.errors import ShapeError


class Gated(NamedTuple):
    """What `inspect` of a gate module returns.

    Attributes:
        output: (B, C, H, W), the same values as `forward`.
        gates: Each gate by its name ("channel", "spatial", "rows", ...), of a shape that broadcasts to (B, C, H, W).
    """

    output: Tensor
    gates: dict[str, Tensor]


def check_map(x: Tensor, channels: int, owner: nn.Module) -> None:
    """Refuse what is not (B, channels, H, W) with at least one pixel.

    Raises:
        ShapeError: Another rank, another number of channels, or no pixel.
    """
    name = type(owner).__name__
    if x.ndim != 4:
        raise ShapeError(f"{name} takes (B, C, H, W), got {x.ndim} axes: {tuple(x.shape)}")
    if x.shape[1] != channels:
        hint = "; channels are axis 1, permute a channels-last tensor first" if x.shape[3] == channels else ""
        raise ShapeError(f"{name} was made for {channels} channels, got {x.shape[1]} in {tuple(x.shape)}{hint}")
    if x.shape[2] == 0 or x.shape[3] == 0:
        raise ShapeError(f"{name} needs at least one pixel, got a map of {x.shape[2]} x {x.shape[3]}")


def is_channels_last(x: Tensor) -> bool:
    """Whether the channels of a pixel lie side by side in memory (False where both orders are the same)."""
    return x.is_contiguous(memory_format=torch.channels_last) and not x.is_contiguous()


def reduced_channels(channels: int, reduction: int, min_channels: int) -> int:
    """The width of a bottleneck: `channels / reduction`, rounded down, and never under `min_channels`.

    Raises:
        ShapeError: One of the three is smaller than 1.

    >>> reduced_channels(64, 16, 4), reduced_channels(8, 16, 4)
    (4, 4)
    """
    if min(channels, reduction, min_channels) < 1:
        raise ShapeError(
            f"channels, reduction and min_channels must be 1 or more, got {channels}, {reduction} and {min_channels}"
        )
    return max(channels // reduction, min_channels)
