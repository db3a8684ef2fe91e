"""Pooling by multi-head attention with k learned seeds; output has k tokens however many come in.

Kind: correct
"""

import torch
from torch import nn


class PoolingByAttention(nn.Module):
    """x: (batch, set, dim), mask: (batch, set) True = element; returns (batch, num_seeds, dim)."""

    def __init__(self, dim=32, heads=4, num_seeds=3):
        super().__init__()
        self.seeds = nn.Parameter(torch.randn(num_seeds, dim))
        self.attn = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.ff = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, dim))

    def forward(self, x, mask=None):
        s = self.seeds.expand(x.shape[0], -1, -1)
        drop = None if mask is None else ~mask
        y = s + self.attn(s, x, x, key_padding_mask=drop, need_weights=False)[0]
        return y + self.ff(y)


def build() -> nn.Module:
    return PoolingByAttention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 7, 32)},
    "mask": {"arg": "mask", "shape": (2, 7), "on": "keys", "polarity": "keep", "dtype": "bool"},
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
