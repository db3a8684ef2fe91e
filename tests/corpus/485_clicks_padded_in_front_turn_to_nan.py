"""Padding stands in front, a padded query sees nothing, and the second layer spreads what it gave.

Kind: fully-masked-nan
"""

import torch
from torch import nn


class Clicks(nn.Module):
    """shown: int64 (users, clicks), the newest last, padded in front; here: bool (users, clicks), True for real clicks."""

    def __init__(self, shop=33, dim=16, heads=2, layers=2, longest=14):
        super().__init__()
        self.heads, self.item, self.place = heads, nn.Embedding(shop, dim), nn.Embedding(longest, dim)
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(layers))
        self.reads = nn.ModuleList(nn.MultiheadAttention(dim, heads, batch_first=True) for _ in range(layers))
        self.last = nn.LayerNorm(dim)

    def forward(self, shown, here=None):
        if here is None:
            here = torch.ones_like(shown, dtype=torch.bool)
        n = shown.shape[1]
        shut = torch.ones(n, n, dtype=torch.bool).triu(1) | ~here[:, None]
        shut = shut.repeat_interleave(self.heads, 0)
        x = self.item(shown) + self.place.weight[:n]
        for norm, read in zip(self.norms, self.reads, strict=True):
            y = norm(x)
            x = (x + read(y, y, y, attn_mask=shut)[0]) * here[..., None]
        return self.last(x) @ self.item.weight.T


def build() -> nn.Module:
    return Clicks()


EXPECTED = {"kind": "fully-masked-nan", "severity": "error"}
CALL = {
    "attention": "causal",
    "layout": "BL",
    "inputs": {"shown": (3, 7)},
    "dtypes": {"shown": "int64"},
    "vocab": 33,
    "mask": {"arg": "here", "shape": (3, 7), "on": "self", "polarity": "keep", "dtype": "bool"},
    "causal": True,
    "embed_dim": 16,
    "heads": 2,
    "head_dim": 8,
    "returns": "out",
}
