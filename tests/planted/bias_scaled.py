"""The additive mask is divided by sqrt(head_dim) together with the scores."""

import math

from torch import nn

RULES = {"ATT107"}


class Right(nn.Module):
    def __init__(self, embed_dim=16, num_heads=2):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        self.in_proj = nn.Linear(embed_dim, 3 * embed_dim)
        self.out_proj = nn.Linear(embed_dim, embed_dim)

    def scores(self, q, k, bias):
        return q @ k.transpose(-1, -2) / math.sqrt(self.head_dim) + bias

    def forward(self, x, mask):
        """mask: (B, 1, T, S), additive: 0 at visible keys, -inf (or a penalty) at others; added to the scores."""
        b, t, e = x.shape
        q, k, v = (y.view(b, t, self.num_heads, -1).transpose(1, 2) for y in self.in_proj(x).chunk(3, -1))
        return self.out_proj((self.scores(q, k, mask).softmax(-1) @ v).transpose(1, 2).reshape(b, t, e))


class Wrong(Right):
    def scores(self, q, k, bias):
        return (q @ k.transpose(-1, -2) + bias) / math.sqrt(self.head_dim)


def right():
    return Right()


def wrong():
    return Wrong()
