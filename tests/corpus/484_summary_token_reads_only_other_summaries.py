"""The summary in front attends to the summaries of the other items, and the names stay the same for all.

Kind: batch-first
"""

import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.before, self.after = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.mix = nn.MultiheadAttention(dim, heads)
        self.feed = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        y = self.before(x)
        x = x + self.mix(y, y, y, need_weights=False)[0]
        return x + self.feed(self.after(x))


class Views(nn.Module):
    """view: (items, 2, rows, columns), cut into squares of four; a summary token in front says what it shows."""

    def __init__(self, dim=24, heads=3, layers=2, names=7):
        super().__init__()
        self.cut = nn.Conv2d(2, dim, 4, 4)
        self.summary = nn.Parameter(torch.randn(1, 1, dim) * 0.3)
        self.layers = nn.Sequential(*(Layer(dim, heads) for _ in range(layers)))
        self.name = nn.Linear(dim, names)

    def forward(self, view):
        pieces = self.cut(view).flatten(2).mT
        x = self.layers(torch.cat((self.summary.expand(len(pieces), -1, -1), pieces), 1))
        return {"names": self.name(x[:, 0]), "pieces": x[:, 1:]}


def build() -> nn.Module:
    return Views()


EXPECTED = {"kind": "batch-first", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BCHW",
    "inputs": {"view": (3, 2, 12, 8)},
    "mask": None,
    "embed_dim": 24,
    "heads": 3,
    "head_dim": 8,
    "returns": "names, pieces",
}
