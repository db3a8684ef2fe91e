"""The heads are kept in a plain list."""

import torch
import torch.nn.functional as F
from torch import nn

RULES = {"ATT705"}


class Head(nn.Module):
    def __init__(self, dim, width):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(dim, width) for _ in range(3))

    def forward(self, x):
        return F.scaled_dot_product_attention(self.q(x), self.k(x), self.v(x))


class Right(nn.Module):
    keep = nn.ModuleList

    def __init__(self, dim=12, heads=3):
        super().__init__()
        self.heads = self.keep(Head(dim, dim // heads) for _ in range(heads))
        self.out = nn.Linear(dim, dim)

    def forward(self, x):
        return self.out(torch.cat([head(x) for head in self.heads], -1))


class Wrong(Right):
    keep = list


def right():
    return Right()


def wrong():
    return Wrong()
