"""The weights are transposed before they meet the values."""

from torch import nn

RULES = {"ATT312"}


class Right(nn.Module):
    def __init__(self, dim=12, heads=2):
        super().__init__()
        self.heads = heads
        self.to_q, self.to_k, self.to_v, self.to_out = (nn.Linear(dim, dim) for _ in range(4))

    def gather(self, weights, v):
        return weights @ v

    def forward(self, x):
        b, t, e = x.shape
        q, k, v = (f(x).view(b, t, self.heads, -1).transpose(1, 2) for f in (self.to_q, self.to_k, self.to_v))
        weights = (q @ k.transpose(-2, -1) * (e // self.heads) ** -0.5).softmax(dim=-1)
        return self.to_out(self.gather(weights, v).transpose(1, 2).reshape(b, t, e))


class Wrong(Right):
    def gather(self, weights, v):
        return weights.transpose(-2, -1) @ v


def right():
    return Right()


def wrong():
    return Wrong()
