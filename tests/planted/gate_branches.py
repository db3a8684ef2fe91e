"""The branch of the maximum is fed with the mean."""

import torch
from torch import nn

RULES = {"ATT905"}


class Right(nn.Module):
    """A channel gate of mean and maximum; x: (B, C, H, W)."""

    def __init__(self, channels=12):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(channels, 8), nn.Tanh(), nn.Linear(8, channels))

    def forward(self, x):
        pooled = x.mean((2, 3)), x.amax((2, 3))
        gate = torch.sigmoid(self.mlp(pooled[0]) + self.mlp(pooled[1]))
        return x * gate[:, :, None, None]


class Wrong(nn.Module):
    """A channel gate of mean and maximum; x: (B, C, H, W)."""

    def __init__(self, channels=12):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(channels, 8), nn.Tanh(), nn.Linear(8, channels))

    def forward(self, x):
        pooled = x.mean((2, 3)), x.amax((2, 3))
        gate = torch.sigmoid(self.mlp(pooled[0]) + self.mlp(pooled[0]))
        return x * gate[:, :, None, None]


def right():
    return Right()


def wrong():
    return Wrong()
