"""Correct: the lengths of the items are passed; places from the length on are hidden and their outputs zeroed.

Kind: correct
"""

import torch
import torch.nn.functional as F
from torch import nn


class LengthAttention(nn.Module):
    def __init__(self, dim=24, heads=3):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, feats, lengths=None):
        """feats: [B, T, dim]; lengths: long [B], each at least 1."""
        q, k, v = self.qkv(feats).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        if lengths is None:
            return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        real = torch.arange(feats.size(1), device=feats.device)[None] < lengths[:, None]
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=real[:, None, None])
        return self.out(y.transpose(1, 2).flatten(2)) * real[..., None]


def build() -> nn.Module:
    return LengthAttention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"feats": (2, 6, 24)},
    "mask": None,
    "embed_dim": 24,
    "heads": 3,
    "head_dim": 8,
    "returns": "out",
}
