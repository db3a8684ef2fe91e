"""Keys are repeated head by head and values as a whole: weights of one group read the values of another."""

import torch.nn.functional as F
from torch import nn

RULES = {"ATT309"}


class Right(nn.Module):
    def __init__(self, dim=16, n_heads=4, n_kv_heads=2):
        super().__init__()
        self.head_dim, self.rep = dim // n_heads, n_heads // n_kv_heads
        self.wq = nn.Linear(dim, dim, bias=False)
        self.wk, self.wv = (nn.Linear(dim, n_kv_heads * self.head_dim, bias=False) for _ in range(2))
        self.wo = nn.Linear(dim, dim, bias=False)

    def spread(self, values):
        return values.repeat_interleave(self.rep, dim=1)

    def forward(self, x):
        q, k, v = (f(x).unflatten(-1, (-1, self.head_dim)).transpose(1, 2) for f in (self.wq, self.wk, self.wv))
        y = F.scaled_dot_product_attention(q, k.repeat_interleave(self.rep, dim=1), self.spread(v))
        return self.wo(y.transpose(1, 2).flatten(2))


class Wrong(Right):
    def spread(self, values):
        return values.repeat(1, self.rep, 1, 1)


def right():
    return Right()


def wrong():
    return Wrong()
