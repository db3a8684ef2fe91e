"""Cross-attention whose keys and values are made from the query's own stream."""

import torch.nn.functional as F
from torch import nn

RULES = {"ATT306"}


class Right(nn.Module):
    def __init__(self, dim=12):
        super().__init__()
        self.q, self.kv = nn.Linear(dim, dim), nn.Linear(dim, 2 * dim)

    def source(self, x, context):
        return context

    def forward(self, x, context):
        k, v = self.kv(self.source(x, context)).chunk(2, -1)
        return x + F.scaled_dot_product_attention(self.q(x), k, v)


class Wrong(Right):
    def source(self, x, context):
        return x


def right():
    return Right()


def wrong():
    return Wrong()
