"""A small residual network for small images: where the gates of the vision recipe go.

Axes: B images, C channels, H rows, W columns.
Source: He et al. 2016, arXiv:1512.03385 (basic blocks), arXiv:1603.05027 (why the addition ends without activation is not used here).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Block(nn.Module):
    """relu(shortcut(x) + norm(conv(relu(norm(conv(x)))))); `(B, C, H, W)` to `(B, out, H / stride, W / stride)`, rounded up."""

    def __init__(self, channels: int, out: int, stride: int = 1):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(out)
        same = stride == 1 and channels == out
        self.shortcut = (
            nn.Identity()
            if same
            else nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))
        )

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.norm1(self.conv1(x)))
        return torch.relu(self.shortcut(x) + self.norm2(self.conv2(y)))


class SmallResNet(nn.Module):
    """A stem, three stages of `depth` blocks with `width`, 2 and 4 times `width` channels, the mean over the image, scores.

    Args:
        channels: Of the images.
        classes: How many scores.
        width: Channels of the first stage.
        depth: Blocks of each stage.
        stem_stride: 2 halves the image at once: a quarter of the time.
    """

    def __init__(self, channels: int, classes: int, *, width: int = 16, depth: int = 1, stem_stride: int = 1):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(channels, width, 3, stem_stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()
        )
        widths = (width, width, 2 * width, 4 * width)
        self.stage1, self.stage2, self.stage3 = (
            _stage(a, b, depth, s) for a, b, s in zip(widths, widths[1:], (1, 2, 2))
        )
        self.head = nn.Linear(4 * width, classes)

    def forward(self, images: Tensor) -> Tensor:
        """(B, C, H, W) to (B, classes)."""
        x = self.stage3(self.stage2(self.stage1(self.stem(images))))
        return self.head(x.mean((2, 3)))


def _stage(channels: int, out: int, depth: int, stride: int) -> nn.Sequential:
    return nn.Sequential(Block(channels, out, stride), *(Block(out, out) for _ in range(depth - 1)))
