"""Attention inside tiles, whose text speaks of the same place in every tile: that is where a bias is shared.

Kind: correct
"""

import torch
from torch import nn


class InsideTiles(nn.Module):
    """(items, rows, columns, size). Pixels of a tile attend to each other with the bias of the same place in every tile."""

    def __init__(self, size=24, heads=3, side=2):
        super().__init__()
        self.heads, self.side = heads, side
        self.enter, self.leave = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.bias = nn.Parameter(torch.randn(heads, 1, 1, side**2, side**2))

    def cut(self, t):
        n, h, w, c = t.shape
        s = self.side
        t = t.reshape(n, h // s, s, w // s, s, self.heads, c // self.heads)
        return t.permute(0, 5, 1, 3, 2, 4, 6).flatten(4, 5)

    def forward(self, x):
        n, h, w, c = x.shape
        s = self.side
        q, k, v = map(self.cut, self.enter(x).chunk(3, dim=-1))
        weights = torch.softmax(q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5 + self.bias, dim=-1)
        y = (weights @ v).unflatten(4, (s, s)).permute(0, 2, 4, 3, 5, 1, 6)
        return self.leave(y.reshape(n, h, w, c))


def build() -> nn.Module:
    return InsideTiles()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "grid-partition"}
CALL = {
    "attention": "window",
    "layout": "BHWC",
    "inputs": {"x": (2, 4, 6, 24)},
    "mask": None,
    "window": 2,
    "embed_dim": 24,
    "heads": 3,
    "head_dim": 8,
    "returns": "out",
}
