"""The class token stands in front, its entry in the mask behind.

Kind: mask-shifted
"""

import torch
import torch.nn.functional as F
from torch import nn


class SetClassifier(nn.Module):
    """x: (batch, elements, dim); mask: (batch, elements), True = element present."""

    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads = heads
        self.cls = nn.Parameter(torch.randn(1, 1, dim))
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], dim=1)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        if mask is not None:
            mask = F.pad(mask, (0, 1), value=True)[:, None, None]
        x = x + self.proj(F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(2))
        return x[:, 0]


def build() -> nn.Module:
    return SetClassifier()


EXPECTED = {"kind": "mask-shifted", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 6, 32)},
    "mask": {"arg": "mask", "shape": (2, 6), "on": "keys", "polarity": "keep", "dtype": "bool"},
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
