"""(B, T, E) is viewed as (B, H, T, D): a head holds several slices of few tokens."""

import torch.nn.functional as F
from torch import nn

RULES = {"ATT304"}


class Right(nn.Module):
    def __init__(self, embed=16, heads=4):
        super().__init__()
        self.heads, self.width = heads, embed // heads
        self.q, self.k, self.v = (nn.Linear(embed, embed) for _ in range(3))

    def split(self, x):
        return x.view(x.shape[0], -1, self.heads, self.width).transpose(1, 2)

    def merge(self, y):
        return y.transpose(1, 2).flatten(2)

    def forward(self, x):
        return self.merge(F.scaled_dot_product_attention(*(self.split(f(x)) for f in (self.q, self.k, self.v))))


class Wrong(Right):
    def split(self, x):
        return x.view(x.shape[0], self.heads, -1, self.width)

    def merge(self, y):
        return y.reshape(y.shape[0], -1, self.heads * self.width)


def right():
    return Right()


def wrong():
    return Wrong()
