"""Angles laid out for neighbouring channels, rotated by halves."""

import torch
from torch import nn

RULES = {"ATT801"}


def half_turned(x):
    a, b = x.chunk(2, -1)
    return torch.cat([-b, a], -1)


class Right(nn.Module):
    def __init__(self, dim=16, heads=2):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)

    def spread(self, angles):
        return torch.cat([angles, angles], -1)

    def rope(self, x):
        """x: (B, H, T, D)."""
        half = x.shape[-1] // 2
        angles = torch.arange(x.shape[-2])[:, None] * 50.0 ** (-torch.arange(half, dtype=torch.float64) / half)
        angles = self.spread(angles)
        return x * angles.cos().to(x.dtype) + half_turned(x) * angles.sin().to(x.dtype)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        weights = (self.rope(q) @ self.rope(k).mT * q.shape[-1] ** -0.5).softmax(-1)
        return (weights @ v).transpose(1, 2).flatten(2)


class Wrong(Right):
    def spread(self, angles):
        return angles.repeat_interleave(2, -1)


def right():
    return Right()


def wrong():
    return Wrong()
