"""Mean and maximum of a feature map, over space or over channels, with a backward that is fast in both memory orders.

Axes: B images, C channels, H rows, W columns.

`Tensor.amax` spreads its gradient over ties with four passes over the whole map, and a mean over an axis that does not lie
side by side in memory hands back a gradient in the wrong order. Here the gradient of the mean is written once, in the
order of the input, and the gradient of the maximum is added at one place: the first of the largest entries.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.nn.feature_map import is_channels_last


def mean_and_max_over_space(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and maximum of each channel.

    Args:
        x: (B, C, H, W).

    Returns:
        Two (B, C, 1, 1).
    """
    if not _needs_gradient(x):
        return x.mean((2, 3), keepdim=True), x.amax((2, 3), keepdim=True)
    largest, place = F.adaptive_max_pool2d(x.detach(), 1, return_indices=True)
    innermost = 1 if is_channels_last(x) else 2
    mean, largest = _MeanAndMax.apply(x.flatten(2), largest.flatten(2), place.flatten(2), 2, innermost)
    return mean[..., None], largest[..., None]


def mean_and_max_over_channels(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and maximum of each pixel.

    Args:
        x: (B, C, H, W).

    Returns:
        Two (B, 1, H, W).
    """
    axis = 3 if is_channels_last(x) else 1
    seen = x.permute(0, 2, 3, 1) if axis == 3 else x
    if _needs_gradient(x):
        largest, place = seen.detach().max(axis, keepdim=True)
        mean, largest = _MeanAndMax.apply(seen, largest, place, axis, 3)
    else:
        mean, largest = seen.mean(axis, keepdim=True), seen.amax(axis, keepdim=True)
    return (mean.permute(0, 3, 1, 2), largest.permute(0, 3, 1, 2)) if axis == 3 else (mean, largest)


def mean_over_columns(x: Tensor) -> Tensor:
    """The mean of each row: (B, C, H, W) to (B, C, H, 1); through the channels' own axis where they lie side by side."""
    if is_channels_last(x):
        return x.permute(0, 2, 3, 1).mean(2, keepdim=True).permute(0, 3, 1, 2)
    return x.mean(3, keepdim=True)


def mean_over_rows(x: Tensor) -> Tensor:
    """The mean of each column: (B, C, H, W) to (B, C, 1, W); through the channels' own axis where they lie side by side."""
    if is_channels_last(x):
        return x.permute(0, 2, 3, 1).mean(1, keepdim=True).permute(0, 3, 1, 2)
    return x.mean(2, keepdim=True)


def _needs_gradient(x: Tensor) -> bool:
    return torch.is_grad_enabled() and x.requires_grad


class _MeanAndMax(torch.autograd.Function):
    """Mean along one axis, and a maximum that was found before, with one gradient for both.

    `innermost` is the axis whose entries lie side by side in memory; the gradient is written in that order.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, largest: Tensor, place: Tensor, axis: int, innermost: int) -> tuple[Tensor, Tensor]:
        return x.mean(axis, keepdim=True), largest.clone()

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        x, _, place, axis, innermost = inputs
        ctx.save_for_backward(place)
        ctx.axis, ctx.size, ctx.innermost = axis, x.shape[axis], innermost

    @staticmethod
    def backward(ctx, mean_gradient: Tensor, max_gradient: Tensor):
        (place,) = ctx.saved_tensors
        shape = list(mean_gradient.shape)
        shape[ctx.axis] = ctx.size
        spread = (mean_gradient / ctx.size).expand(shape)
        written = spread.movedim(ctx.innermost, -1).contiguous().movedim(-1, ctx.innermost)
        return written.scatter_add_(ctx.axis, place, max_gradient.to(written.dtype)), None, None, None, None
