"""The fused kernel is given the dropout rate in every mode."""

import torch.nn.functional as F
from torch import nn

RULES = {"ATT501"}


class Right(nn.Module):
    def __init__(self, dim=12, heads=2, dropout=0.2):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.qkv = nn.Linear(dim, 3 * dim)

    def rate(self):
        return self.dropout if self.training else 0.0

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        return F.scaled_dot_product_attention(q, k, v, dropout_p=self.rate()).transpose(1, 2).flatten(2)


class Wrong(Right):
    def rate(self):
        return self.dropout


def right():
    return Right()


def wrong():
    return Wrong()
