"""The rotation runs along the heads: every token gets the same angles."""

import torch
import torch.nn.functional as F
from torch import nn

RULES = {"ATT802"}


class Right(nn.Module):
    """Attention with rotary positions."""

    def __init__(self, dim=16, heads=2):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))

    def angles(self, x):
        """x: (B, T, H, D / 2) -> angles that broadcast over it."""
        return torch.arange(x.shape[1], dtype=x.dtype)[:, None, None] * self.speeds(x)

    def speeds(self, x):
        return 20.0 ** (-torch.arange(x.shape[-1], dtype=x.dtype) / x.shape[-1])

    def turned(self, x):
        a, b = x[..., 0::2], x[..., 1::2]
        cos, sin = self.angles(a).cos(), self.angles(a).sin()
        return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)

    def forward(self, x):
        q, k, v = (f(x).unflatten(-1, (self.heads, -1)) for f in (self.q, self.k, self.v))
        q, k, v = (y.transpose(1, 2) for y in (self.turned(q), self.turned(k), v))
        return self.o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class Wrong(Right):
    """Attention with rotary positions."""

    def angles(self, x):
        return torch.arange(x.shape[2], dtype=x.dtype)[:, None] * self.speeds(x)


def right():
    return Right()


def wrong():
    return Wrong()
