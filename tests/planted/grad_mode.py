"""A fast path without gradients leaves out the scale."""

import torch
import torch.nn.functional as F
from torch import nn

RULES = {"ATT504"}


class Right(nn.Module):
    def __init__(self, dim=12):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))

    def slow(self, q, k, v):
        return (q @ k.mT * q.shape[-1] ** -0.5).softmax(-1) @ v

    def forward(self, x):
        q, k, v = self.q(x), self.k(x), self.v(x)
        return self.slow(q, k, v) if torch.is_grad_enabled() else F.scaled_dot_product_attention(q, k, v)


class Wrong(Right):
    def slow(self, q, k, v):
        return (q @ k.mT).softmax(-1) @ v


def right():
    return Right()


def wrong():
    return Wrong()
