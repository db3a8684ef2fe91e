"""A bottleneck of channels // reduction = 0 hidden units: the gate is a constant."""

import torch
from torch import nn

RULES = {"ATT701", "ATT902"}


class Right(nn.Module):
    """A channel gate; x: (B, C, H, W)."""

    def __init__(self, channels=16, reduction=32):
        super().__init__()
        hidden = self.hidden(channels, reduction)
        self.down = nn.Parameter(torch.randn(channels, hidden) / 4)
        self.up = nn.Parameter(torch.randn(hidden, channels) / 4)
        self.offset = nn.Parameter(torch.randn(channels))

    def hidden(self, channels, reduction):
        return max(channels // reduction, 4)

    def forward(self, x):
        gate = torch.sigmoid(torch.tanh(x.mean((2, 3)) @ self.down) @ self.up + self.offset)
        return x * gate[:, :, None, None]


class Wrong(Right):
    """A channel gate; x: (B, C, H, W)."""

    def hidden(self, channels, reduction):
        return channels // reduction


def right():
    return Right()


def wrong():
    return Wrong()
