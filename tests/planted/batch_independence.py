"""A centring step takes the mean over the batch instead of the channels."""

import torch.nn.functional as F
from torch import nn

RULES = {"ATT301"}


class Right(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.to_qkv = nn.Linear(dim, 3 * dim)

    def centred(self, x):
        return x - x.mean(-1, keepdim=True)

    def forward(self, x):
        """x: (B, T, D)."""
        q, k, v = self.to_qkv(self.centred(x)).chunk(3, dim=-1)
        return x + F.scaled_dot_product_attention(q, k, v)


class Wrong(Right):
    def centred(self, x):
        return x - x.mean(0, keepdim=True)


def right():
    return Right()


def wrong():
    return Wrong()
