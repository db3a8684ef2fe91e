"""Correct: MaxViT grid attention on [B, C, H, W]; pixels at the same offset in their cell attend to each other.

Kind: correct
"""

import torch
import torch.nn.functional as F
from torch import nn


class GridAttention(nn.Module):
    def __init__(self, dim=8, grid_size=2, heads=2):
        super().__init__()
        self.g, self.heads = grid_size, heads
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        B, C, H, W = x.shape
        g = self.g
        t = x.view(B, C, g, H // g, g, W // g).permute(0, 3, 5, 2, 4, 1)
        q, k, v = (
            self.qkv(t.reshape(-1, g * g, C)).view(-1, g * g, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        )
        o = self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(-1, g * g, C))
        o = o.view(B, H // g, W // g, g, g, C).permute(0, 5, 3, 1, 4, 2)
        return torch.reshape(o, (B, C, H, W))


def build() -> nn.Module:
    return GridAttention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "grid-partition"}
CALL = {
    "attention": "window",
    "layout": "BCHW",
    "inputs": {"x": (1, 8, 6, 6)},
    "mask": None,
    "window": "grid 2x2",
    "embed_dim": 8,
    "heads": 2,
    "head_dim": 4,
    "returns": "out",
}
