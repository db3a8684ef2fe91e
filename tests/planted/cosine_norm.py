"""Row i of the scores is divided by the length of key i, whatever key stands in the column."""

from torch import nn

RULES = {"ATT404"}


class Right(nn.Module):
    def __init__(self, dim=12, heads=2):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))

    def lengths(self, q, k):
        return q.norm(dim=-1, keepdim=True) * k.norm(dim=-1, keepdim=True).mT

    def forward(self, x):
        q, k, v = (f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
        cosine = q @ k.mT / self.lengths(q, k)
        return ((10.0 * cosine).softmax(-1) @ v).transpose(1, 2).flatten(2)


class Wrong(Right):
    def lengths(self, q, k):
        return q.norm(dim=-1, keepdim=True) * k.norm(dim=-1, keepdim=True)


def right():
    return Right()


def wrong():
    return Wrong()
