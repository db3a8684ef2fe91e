"""The input is cut into heads before one small projection that all heads share."""

import torch.nn.functional as F
from torch import nn

RULES = {"ATT311"}


class Right(nn.Module):
    def __init__(self, dim=12, heads=3):
        super().__init__()
        self.heads = heads
        self.maps = nn.ModuleList(nn.Linear(dim, dim) for _ in range(3))
        self.out = nn.Linear(dim, dim)

    def cut(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x):
        q, k, v = (self.cut(f(x)) for f in self.maps)
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class Wrong(Right):
    def __init__(self, dim=12, heads=3):
        super().__init__(dim, heads)
        self.maps = nn.ModuleList(nn.Linear(dim // heads, dim // heads) for _ in range(3))

    def forward(self, x):
        q, k, v = (f(self.cut(x)) for f in self.maps)
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


def right():
    return Right()


def wrong():
    return Wrong()
