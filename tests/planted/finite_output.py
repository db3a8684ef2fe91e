"""Linear attention with features that can all be zero, and nothing added to the denominator."""

import torch.nn.functional as F
from torch import nn

RULES = {"ATT605"}


class Right(nn.Module):
    tiny = 1e-6

    def __init__(self, dim=8, features=5):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(dim, features), nn.Linear(dim, features), nn.Linear(dim, dim)

    def forward(self, x):
        q, k = F.relu(self.q(x)), F.relu(self.k(x))
        return q @ (k.mT @ self.v(x)) / (q @ k.sum(1, keepdim=True).mT + self.tiny)


class Wrong(Right):
    tiny = 0.0


def right():
    return Right()


def wrong():
    return Wrong()
