"""Dropout falls on the scores, before the softmax."""

from torch import nn

RULES = {"ATT507"}


class Right(nn.Module):
    def __init__(self, dim=12, dropout=0.1):
        super().__init__()
        self.qkv = nn.Linear(dim, 3 * dim)
        self.dropout = nn.Dropout(dropout)

    def weights(self, scores):
        return self.dropout(scores.softmax(-1))

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        return self.weights(q @ k.mT / q.shape[-1] ** 0.5) @ v


class Wrong(Right):
    def weights(self, scores):
        return self.dropout(scores).softmax(-1)


def right():
    return Right()


def wrong():
    return Wrong()
