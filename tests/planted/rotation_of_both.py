"""Queries are rotated, keys are not."""

import torch
import torch.nn.functional as F
from torch import nn

RULES = {"ATT808"}


class Right(nn.Module):
    def __init__(self, dim=32, heads=2):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def turn(self, x):
        pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
        speed = 50.0 ** -torch.linspace(0, 1, pairs.shape[-1], dtype=x.dtype)
        angle = torch.outer(torch.arange(x.shape[-2], dtype=x.dtype), speed)
        return torch.view_as_real(pairs * torch.polar(torch.ones_like(angle), angle)).flatten(-2)

    def places(self, q, k):
        return self.turn(q), self.turn(k)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        q, k = self.places(q, k)
        return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


class Wrong(Right):
    def places(self, q, k):
        return self.turn(q), k


def right():
    return Right()


def wrong():
    return Wrong()
