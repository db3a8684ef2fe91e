"""A 2-D relative table whose row stride is the height's number of offsets."""

import torch
from torch import nn

RULES = {"ATT804"}


class Right(nn.Module):
    """Tokens are the pixels of one window, row by row: x is (B, h * w, dim)."""

    def __init__(self, dim=8, num_heads=2, window_size=(2, 4)):
        super().__init__()
        self.num_heads, self.window_size = num_heads, window_size
        h, w = window_size
        self.table = nn.Parameter(torch.randn((2 * h - 1) * (2 * w - 1), num_heads))
        y, x = (c.flatten() for c in torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij"))
        dy, dx = y[:, None] - y + h - 1, x[:, None] - x + w - 1
        self.register_buffer("index", self.joined(dy, dx, h, w))
        self.qkv = nn.Linear(dim, 3 * dim)

    def joined(self, dy, dx, h, w):
        return dy * (2 * w - 1) + dx

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4)
        bias = self.table[self.index].permute(2, 0, 1)
        weights = (q @ k.mT * q.shape[-1] ** -0.5 + bias).softmax(-1)
        return (weights @ v).transpose(1, 2).flatten(2)


class Wrong(Right):
    """Tokens are the pixels of one window, row by row: x is (B, h * w, dim)."""

    def joined(self, dy, dx, h, w):
        return dy * (2 * h - 1) + dx


def right():
    return Right()


def wrong():
    return Wrong()
