"""Hidden scores are set to -100, whose exponential is a subnormal number."""

import torch
from torch import nn

RULES = set()
ASKED = {"ATT407"}


class Right(nn.Module):
    hide = float("-inf")

    def __init__(self, dim=12):
        super().__init__()
        self.qkv = nn.Linear(dim, 3 * dim)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        return (q @ k.mT * q.shape[-1] ** -0.5).masked_fill(later, self.hide).softmax(-1) @ v


class Wrong(Right):
    hide = -100.0


def right():
    return Right()


def wrong():
    return Wrong()
