"""A mask constant that is infinite in float16: 0 times infinity at every visible key."""

import torch
from torch import nn

RULES = {"ATT603"}


class Right(nn.Module):
    def __init__(self, dim=12):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))

    def constant(self, dtype):
        return -10_000.0

    def forward(self, x, attention_mask):
        """attention_mask: (B, T), 1 = attend."""
        scores = self.q(x) @ self.k(x).mT * x.shape[-1] ** -0.5
        hidden = 1 - attention_mask[:, None].to(x.dtype)
        return (scores + hidden * torch.tensor(self.constant(x.dtype), dtype=x.dtype)).softmax(-1) @ self.v(x)


class Wrong(Right):
    def constant(self, dtype):
        return -1e20


def right():
    return Right()


def wrong():
    return Wrong()
