"""Squeeze and excitation that never squeezes: the pooling is made and not called."""

import torch
from torch import nn

RULES = {"ATT901"}


class SqueezeRight(nn.Module):
    """A channel gate; x: (B, C, H, W)."""

    def __init__(self, channels=16):
        super().__init__()
        self.squeeze = nn.AdaptiveAvgPool2d(1)
        self.down, self.up = nn.Conv2d(channels, 8, 1), nn.Conv2d(8, channels, 1)

    def summary(self, x):
        return self.squeeze(x)

    def forward(self, x):
        return x * torch.sigmoid(self.up(torch.tanh(self.down(self.summary(x)))))


class SqueezeWrong(SqueezeRight):
    """A channel gate; x: (B, C, H, W)."""

    def summary(self, x):
        return x


def right():
    return SqueezeRight()


def wrong():
    return SqueezeWrong()
