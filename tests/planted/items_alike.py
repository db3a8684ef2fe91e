"""The triangle is filled in for the first item of the batch only."""

import torch
from torch import nn

RULES = {"ATT313"}


class Right(nn.Module):
    def __init__(self, dim=18, heads=3):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def hide(self, scores):
        ahead = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        return scores.masked_fill(ahead, -1e9)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        weights = self.hide(q @ k.mT * q.shape[-1] ** -0.5).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).flatten(2))


class Wrong(Right):
    def hide(self, scores):
        ahead = torch.zeros_like(scores, dtype=torch.bool)
        ahead[0] = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        return scores.masked_fill(ahead, -1e9)


def right():
    return Right()


def wrong():
    return Wrong()
