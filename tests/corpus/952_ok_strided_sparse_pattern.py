"""Strided sparse attention: the last `stride` tokens, and before them each `stride`-th one.

Kind: correct
"""

import torch
import torch.nn.functional as F
from torch import nn


class StridedSparseAttention(nn.Module):
    def __init__(self, dim=32, heads=4, stride=3):
        super().__init__()
        self.heads, self.stride = heads, stride
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        i = torch.arange(x.shape[1], device=x.device)
        gap = i[:, None] - i[None]
        keep = (gap >= 0) & ((gap < self.stride) | (gap % self.stride == 0))
        return self.proj(F.scaled_dot_product_attention(q, k, v, attn_mask=keep).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return StridedSparseAttention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "causal",
    "layout": "BLD",
    "inputs": {"x": (2, 12, 32)},
    "mask": None,
    "causal": True,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
