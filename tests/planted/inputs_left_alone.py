"""Positions are added to the caller's tensor in place."""

import torch
import torch.nn.functional as F
from torch import nn

RULES = {"ATT704"}


class Right(nn.Module):
    def __init__(self, dim=12, max_len=64):
        super().__init__()
        self.where = nn.Parameter(0.1 * torch.randn(max_len, dim))
        self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))

    def placed(self, x):
        return x + self.where[: x.shape[1]]

    def forward(self, x):
        y = self.placed(x)
        return F.scaled_dot_product_attention(self.q(y), self.k(y), self.v(y))


class Wrong(Right):
    def placed(self, x):
        return x.add_(self.where[: x.shape[1]])


def right():
    return Right()


def wrong():
    return Wrong()
