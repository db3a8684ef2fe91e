"""With a cache, the rotation starts at position 0 in every step."""

import torch
from torch import nn

RULES = {"ATT203"}


def rotated(x, first):
    """x: (B, T, D), rotary by halves; the first token stands at place `first`."""
    half = x.shape[-1] // 2
    place = first + torch.arange(x.shape[1], dtype=x.dtype)
    angle = place[:, None] * 100.0 ** (-torch.arange(half, dtype=x.dtype) / half)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], -1)


class Right(nn.Module):
    def __init__(self, dim=12):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))

    def first(self, past):
        return 0 if past is None else past[0].shape[1]

    def forward(self, x, past=None):
        q, k = rotated(self.q(x), self.first(past)), rotated(self.k(x), self.first(past))
        v = self.v(x)
        if past is not None:
            k, v = torch.cat([past[0], k], 1), torch.cat([past[1], v], 1)
        scores = q @ k.mT * k.shape[-1] ** -0.5
        allowed = torch.ones(q.shape[1], k.shape[1], dtype=torch.bool).tril(k.shape[1] - q.shape[1])
        return scores.masked_fill(~allowed, float("-inf")).softmax(-1) @ v, (k, v)


class Wrong(Right):
    def first(self, past):
        return 0


def right():
    return Right()


def wrong():
    return Wrong()
