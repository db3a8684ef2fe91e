"""Queries stand for keys too: a third of the fused projection is never read."""

import torch.nn.functional as F
from torch import nn

RULES = {"ATT707"}


class Right(nn.Module):
    def __init__(self, dim=20, heads=4):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim)

    def pick(self, parts):
        return parts[0], parts[1], parts[2]

    def forward(self, x):
        q, k, v = self.pick(self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4))
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class Wrong(Right):
    def pick(self, parts):
        return parts[0], parts[0], parts[2]


def right():
    return Right()


def wrong():
    return Wrong()
