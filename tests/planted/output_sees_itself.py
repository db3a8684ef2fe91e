"""Attention in blocks of four leaves what fills no block at zero."""

import torch
import torch.nn.functional as F
from torch import nn

RULES = {"ATT307"}


class Right(nn.Module):
    def __init__(self, dim=8, block=4):
        super().__init__()
        self.block = block
        self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))

    def starts(self, t):
        return range(0, t, self.block)

    def forward(self, x):
        q, k, v = self.q(x), self.k(x), self.v(x)
        out = torch.zeros_like(v)
        for at in self.starts(x.shape[1]):
            one = slice(at, at + self.block)
            out[:, one] = F.scaled_dot_product_attention(q[:, one], k[:, one], v[:, one])
        return out


class Wrong(Right):
    def starts(self, t):
        return range(0, t - self.block + 1, self.block)


def right():
    return Right()


def wrong():
    return Wrong()
