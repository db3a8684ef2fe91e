"""An item of which every key is hidden: the softmax of a row of -inf."""

import torch
from torch import nn

RULES = {"ATT601"}


class Right(nn.Module):
    def __init__(self, dim=12):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))

    def absent(self, scores):
        return torch.finfo(scores.dtype).min

    def forward(self, x, valid):
        """valid: (B, T) bool, True = a real token."""
        scores = self.q(x) @ self.k(x).mT * x.shape[-1] ** -0.5
        return scores.masked_fill(~valid[:, None], self.absent(scores)).softmax(-1) @ self.v(x)


class Wrong(Right):
    def absent(self, scores):
        return float("-inf")


def right():
    return Right()


def wrong():
    return Wrong()
