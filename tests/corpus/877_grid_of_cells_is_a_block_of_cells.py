"""Grid attention should join pixels H/g apart; the axes are taken as in the block version.

Kind: grid-partition
"""

import torch.nn.functional as F
from torch import nn


class GridAttention(nn.Module):
    """Sparse global attention over a g x g grid spread over the whole map. x: (B, H, W, C)"""

    def __init__(self, dim=16, heads=2, grid_size=3):
        super().__init__()
        self.heads, self.grid_size = heads, grid_size
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        B, H, W, C = x.shape
        g = self.grid_size
        t = x.view(B, H // g, g, W // g, g, C).permute(0, 1, 3, 2, 4, 5).reshape(-1, g * g, C)
        q, k, v = self.qkv(t).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        t = self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return t.view(B, H // g, W // g, g, g, C).permute(0, 1, 3, 2, 4, 5).reshape(B, H, W, C)


def build() -> nn.Module:
    return GridAttention()


EXPECTED = {"kind": "grid-partition", "severity": "error"}
CALL = {
    "attention": "window",
    "layout": "BHWC",
    "inputs": {"x": (2, 6, 6, 16)},
    "mask": None,
    "window": "grid 3x3",
    "embed_dim": 16,
    "heads": 2,
    "head_dim": 8,
    "returns": "out",
}
