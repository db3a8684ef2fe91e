"""Parallel block: attention and feed-forward read the same norm and are added together, one fused input projection.

Kind: correct
"""

import torch.nn.functional as F
from torch import nn


class ParallelBlock(nn.Module):
    def __init__(self, dim=32, heads=4, mult=2):
        super().__init__()
        self.heads, self.dim, self.norm = heads, dim, nn.LayerNorm(dim)
        self.fused = nn.Linear(dim, 3 * dim + 2 * mult * dim, bias=False)
        self.attn_out, self.ff_out = nn.Linear(dim, dim, bias=False), nn.Linear(mult * dim, dim, bias=False)

    def forward(self, x):
        qkv, ff = self.fused(self.norm(x)).split([3 * self.dim, self.fused.out_features - 3 * self.dim], dim=-1)
        q, k, v = qkv.unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        a, g = ff.chunk(2, dim=-1)
        return x + self.attn_out(y) + self.ff_out(F.silu(g) * a)


def build() -> nn.Module:
    return ParallelBlock()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 6, 32)},
    "mask": None,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
