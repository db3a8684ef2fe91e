"""The hidden triangle begins at diagonal 2: every token sees the next one."""

import torch
from torch import nn

RULES = {"ATT201"}


class Right(nn.Module):
    def __init__(self, dim=12, heads=2):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def future(self, t):
        return torch.ones(t, t, dtype=torch.bool).triu(1)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        dots = torch.einsum("bhtd,bhsd->bhts", q, k) * q.shape[-1] ** -0.5
        dots = dots.masked_fill(self.future(x.shape[1]), float("-inf"))
        return self.out(torch.einsum("bhts,bhsd->bthd", dots.softmax(-1), v).flatten(2))


class Wrong(Right):
    def future(self, t):
        return torch.ones(t, t, dtype=torch.bool).triu(2)


def right():
    return Right()


def wrong():
    return Wrong()
