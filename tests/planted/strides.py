"""Heads are cut out of memory by hand-written strides, which hold for contiguous tensors only."""

import torch.nn.functional as F
from torch import nn

RULES = {"ATT308"}


class Right(nn.Module):
    """Heads without projections of queries, keys and values; x: (B, T, E)."""

    def __init__(self, embed_dim=8, num_heads=2):
        super().__init__()
        self.num_heads = num_heads
        self.out_proj = nn.Linear(embed_dim, embed_dim)

    def heads(self, x):
        b, t, e = x.shape
        return x.reshape(b, t, self.num_heads, e // self.num_heads).transpose(1, 2)

    def forward(self, x):
        y = self.heads(x)
        return self.out_proj(F.scaled_dot_product_attention(y, y, y).transpose(1, 2).flatten(2))


class Wrong(Right):
    def heads(self, x):
        b, t, e = x.shape
        d = e // self.num_heads
        return x.as_strided((b, self.num_heads, t, d), (t * e, d, e, 1))


def right():
    return Right()


def wrong():
    return Wrong()
