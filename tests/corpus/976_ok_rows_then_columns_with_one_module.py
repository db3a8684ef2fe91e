"""Shared axial attention over rows and columns, summed.

Kind: correct
"""

import torch.nn.functional as F
from torch import nn


class AxialSum(nn.Module):
    """x: (B, H, W, C)"""

    def __init__(self, dim=16, heads=2):
        super().__init__()
        self.heads, self.qkv, self.proj = heads, nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim)

    def along(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(3, 0, 1, 4, 2, 5)
        return F.scaled_dot_product_attention(q, k, v).transpose(2, 3).flatten(3)

    def forward(self, x):
        return self.proj(self.along(x) + self.along(x.transpose(1, 2)).transpose(1, 2))


def build() -> nn.Module:
    return AxialSum()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "self",
    "layout": "BHWC",
    "inputs": {"x": (2, 4, 5, 16)},
    "mask": None,
    "embed_dim": 16,
    "heads": 2,
    "head_dim": 8,
    "returns": "out",
}
