"""Both projections of the scores start at zero: neither gets a gradient from the other."""

import torch.nn.functional as F
from torch import nn

RULES = {"ATT702"}


class Right(nn.Module):
    def __init__(self, dim=12):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(dim, dim, bias=False) for _ in range(3))
        nn.init.zeros_(self.q.weight)
        self.start(self.k.weight)

    def start(self, weight):
        nn.init.xavier_uniform_(weight)

    def forward(self, x):
        return F.scaled_dot_product_attention(self.q(x), self.k(x), self.v(x))


class Wrong(Right):
    def start(self, weight):
        nn.init.zeros_(weight)


def right():
    return Right()


def wrong():
    return Wrong()
