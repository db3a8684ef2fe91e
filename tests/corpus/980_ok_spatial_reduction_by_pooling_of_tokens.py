"""Tokens with their height and width: keys come from an average pool of the map.

Kind: correct
"""

import torch.nn.functional as F
from torch import nn


class PoolingAttention(nn.Module):
    def __init__(self, dim=16, num_heads=2, pool=2):
        super().__init__()
        self.num_heads, self.pool = num_heads, pool
        self.q, self.kv, self.proj, self.norm = (
            nn.Linear(dim, dim),
            nn.Linear(dim, 2 * dim),
            nn.Linear(dim, dim),
            nn.LayerNorm(dim),
        )

    def forward(self, x, H, W):
        B, N, C = x.shape
        q = self.q(x).reshape(B, N, self.num_heads, -1).permute(0, 2, 1, 3)
        y = F.avg_pool2d(x.permute(0, 2, 1).reshape(B, C, H, W), self.pool, ceil_mode=True).flatten(2).permute(0, 2, 1)
        k, v = self.kv(self.norm(y)).reshape(B, -1, 2, self.num_heads, C // self.num_heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v)
        return self.proj(y.transpose(1, 2).reshape(B, N, C))


def build() -> nn.Module:
    return PoolingAttention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 24, 16)},
    "mask": None,
    "embed_dim": 16,
    "heads": 2,
    "head_dim": 8,
    "returns": "out",
}
