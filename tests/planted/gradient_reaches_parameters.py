"""The projection after the attention is made and never called."""

import torch.nn.functional as F
from torch import nn

RULES = {"ATT701"}


class Right(nn.Module):
    def __init__(self, dim=12):
        super().__init__()
        self.q, self.k, self.v, self.proj = (nn.Linear(dim, dim) for _ in range(4))

    def last(self, y):
        return self.proj(y)

    def forward(self, x):
        return self.last(F.scaled_dot_product_attention(self.q(x), self.k(x), self.v(x)))


class Wrong(Right):
    def last(self, y):
        return y


def right():
    return Right()


def wrong():
    return Wrong()
