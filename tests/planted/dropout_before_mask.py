"""Dropout falls on the mask: in training, some hidden keys come back."""

import torch
import torch.nn.functional as F
from torch import nn

RULES = {"ATT506"}


class Right(nn.Module):
    def __init__(self, dim=12, dropout=0.3):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))
        self.dropout = dropout

    def dropped(self, hidden, weights):
        return hidden, F.dropout(weights, self.dropout, self.training)

    def forward(self, x, mask):
        """mask: (B, T), 1 = attend, 0 = padding."""
        q, k, v = self.q(x), self.k(x), self.v(x)
        scores = q @ k.mT * q.shape[-1] ** -0.5
        hidden = (mask == 0).to(x.dtype)[:, None].expand_as(scores)
        hidden, _ = self.dropped(hidden, scores)
        weights = scores.masked_fill(hidden > 0, torch.finfo(x.dtype).min).softmax(-1)
        _, weights = self.dropped(hidden, weights)
        return weights @ v


class Wrong(Right):
    def dropped(self, hidden, weights):
        return (F.dropout(y, self.dropout, self.training) for y in (hidden, weights))


def right():
    return Right()


def wrong():
    return Wrong()
