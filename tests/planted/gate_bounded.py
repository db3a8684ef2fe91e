"""A spatial gate without its sigmoid."""

import torch
from torch import nn

RULES = {"ATT903"}


class Right(nn.Module):
    """A spatial gate, one value per pixel; x: (B, C, H, W)."""

    def __init__(self, size=5):
        super().__init__()
        self.conv = nn.Conv2d(2, 1, size, padding=size // 2)

    def bounded(self, gate):
        return torch.sigmoid(gate)

    def forward(self, x):
        seen = torch.cat([x.amax(1, keepdim=True), x.mean(1, keepdim=True)], 1)
        return self.bounded(self.conv(seen)) * x


class Wrong(Right):
    """A spatial gate, one value per pixel; x: (B, C, H, W)."""

    def bounded(self, gate):
        return gate


def right():
    return Right()


def wrong():
    return Wrong()
