"""GridAttention cuts the map into g x g cells like the block attention does: (H // g, g) instead of (g, H // g).

Kind: grid-partition
"""

import torch.nn.functional as F
from torch import nn


class GridAttention(nn.Module):
    """MaxViT: global, dilated mixing between the cells of a grid. x: [B, C, H, W]."""

    def __init__(self, dim=8, grid_size=2, heads=2):
        super().__init__()
        self.g, self.heads = grid_size, heads
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        B, C, H, W = x.shape
        g = self.g
        t = x.reshape(B, C, H // g, g, W // g, g).permute(0, 2, 4, 3, 5, 1)
        q, k, v = self.qkv(t.flatten(0, 2).flatten(1, 2)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        o = self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return o.view(B, H // g, W // g, g, g, C).permute(0, 5, 1, 3, 2, 4).reshape(B, C, H, W)


def build() -> nn.Module:
    return GridAttention()


EXPECTED = {"kind": "grid-partition", "severity": "error"}
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
