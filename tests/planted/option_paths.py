"""The path that returns the weights has no causal mask."""

import torch
import torch.nn.functional as F
from torch import nn

RULES = {"ATT505"}


class Right(nn.Module):
    def __init__(self, dim=12):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))

    def weights(self, q, k):
        scores = q @ k.mT * q.shape[-1] ** -0.5
        return scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), float("-inf")).softmax(-1)

    def forward(self, x, need_weights=False):
        q, k, v = self.q(x), self.k(x), self.v(x)
        if not need_weights:
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)
        weights = self.weights(q, k)
        return weights @ v, weights


class Wrong(Right):
    def weights(self, q, k):
        return (q @ k.mT * q.shape[-1] ** -0.5).softmax(-1)


def right():
    return Right()


def wrong():
    return Wrong()
