"""A band with <= where < was meant: one key more than the window."""

import torch
from torch import nn

RULES = {"ATT807"}


class Right(nn.Module):
    """Causal attention to the last `window` tokens, the token itself included."""

    def __init__(self, dim=12, window=3):
        super().__init__()
        self.window = window
        self.qkv = nn.Linear(dim, 3 * dim)

    def near(self, gap):
        return gap < self.window

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        place = torch.arange(x.shape[1])
        gap = place[:, None] - place
        scores = (q @ k.mT * q.shape[-1] ** -0.5).masked_fill(~((gap >= 0) & self.near(gap)), float("-inf"))
        return scores.softmax(-1) @ v


class Wrong(Right):
    """Causal attention to the last `window` tokens, the token itself included."""

    def near(self, gap):
        return gap <= self.window


def right():
    return Right()


def wrong():
    return Wrong()
