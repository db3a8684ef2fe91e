"""The index of a relative bias adds two places instead of subtracting them."""

import torch
from torch import nn

RULES = {"ATT809"}


class Right(nn.Module):
    def __init__(self, dim=16, heads=2, longest=40):
        super().__init__()
        self.heads, self.longest = heads, longest
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.table = nn.Parameter(torch.randn(heads, 2 * longest))

    def index(self, place):
        return place[:, None] - place[None, :] + self.longest

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        bias = self.table[:, self.index(torch.arange(x.shape[1]))]
        weights = (q @ k.mT * q.shape[-1] ** -0.5 + bias).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).flatten(2))


class Wrong(Right):
    def index(self, place):
        return place[:, None] + place[None, :]


def right():
    return Right()


def wrong():
    return Wrong()
