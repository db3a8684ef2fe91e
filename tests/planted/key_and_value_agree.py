"""A memory slot stands before the keys and behind the values."""

import torch
import torch.nn.functional as F
from torch import nn

RULES = {"ATT305"}


class Right(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))
        self.slot_key, self.slot_value = (nn.Parameter(torch.randn(1, 1, dim)) for _ in range(2))

    def with_slot(self, slot, values):
        return torch.cat([slot, values], 1)

    def forward(self, x):
        k, v = self.k(x), self.v(x)
        k = torch.cat([self.slot_key.expand(len(x), -1, -1), k], 1)
        v = self.with_slot(self.slot_value.expand(len(x), -1, -1), v)
        return F.scaled_dot_product_attention(self.q(x), k, v)


class Wrong(Right):
    def with_slot(self, slot, values):
        return torch.cat([values, slot], 1)


def right():
    return Right()


def wrong():
    return Wrong()
