"""Linear attention without the division by the sum of its weights."""

import torch.nn.functional as F
from torch import nn

RULES = {"ATT406"}


class Right(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))

    def divided(self, out, q, k):
        return out / (q @ k.sum(1, keepdim=True).mT + 1e-6)

    def forward(self, x):
        q, k = F.elu(self.q(x)) + 1, F.elu(self.k(x)) + 1
        return self.divided(q @ (k.mT @ self.v(x)), q, k)


class Wrong(Right):
    def divided(self, out, q, k):
        return out


def right():
    return Right()


def wrong():
    return Wrong()
