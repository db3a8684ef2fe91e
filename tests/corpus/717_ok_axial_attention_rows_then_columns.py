"""Correct: attention along rows, then along columns; a pixel reaches every pixel after both.

Kind: correct
"""

import torch
import torch.nn.functional as F
from torch import nn


class LineAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.qkv, self.proj = heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).transpose(1, 3).unbind(2)
        return self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class AxialAttention(nn.Module):
    def __init__(self, dim=16, heads=2):
        super().__init__()
        self.row, self.column = LineAttention(dim, heads), LineAttention(dim, heads)

    def forward(self, x):
        """x: [B, C, H, W]."""
        B, C, H, W = x.shape
        r = x.permute(0, 2, 3, 1).reshape(B * H, W, C)
        x = x + self.row(r).view(B, H, W, C).permute(0, 3, 1, 2)
        c = x.permute(0, 3, 2, 1).reshape(B * W, H, C)
        return x + torch.einsum("bwhc->bchw", self.column(c).view(B, W, H, C))


def build() -> nn.Module:
    return AxialAttention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "spatial-layout-scramble"}
CALL = {
    "attention": "spatial",
    "layout": "BCHW",
    "inputs": {"x": (2, 16, 3, 5)},
    "mask": None,
    "embed_dim": 16,
    "heads": 2,
    "head_dim": 8,
    "returns": "out",
}
