"""Heads are merged without moving the head axis back: tokens get each other's rows."""

from torch import nn

RULES = {"ATT303"}


class Right(nn.Module):
    def __init__(self, dim=16, n_heads=2):
        super().__init__()
        self.n_heads = n_heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(dim, dim, bias=False) for _ in range(4))

    def split(self, x):
        return x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)

    def merge(self, y):
        b, h, t, d = y.shape
        return y.transpose(1, 2).reshape(b, t, h * d)

    def forward(self, x):
        q, k, v = self.split(self.wq(x)), self.split(self.wk(x)), self.split(self.wv(x))
        weights = (q @ k.transpose(2, 3) / q.size(-1) ** 0.5).softmax(-1)
        return self.wo(self.merge(weights @ v))


class Wrong(Right):
    def merge(self, y):
        b, h, t, d = y.shape
        return y.reshape(b, t, h * d)


def right():
    return Right()


def wrong():
    return Wrong()
