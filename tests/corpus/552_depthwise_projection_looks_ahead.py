"""Convolutional projections of width 3, padded on both sides, in front of a causal attention.

Kind: future-leak-nonattention
"""

import torch
import torch.nn.functional as F
from torch import nn


class ConvProjAttention(nn.Module):
    def __init__(self, dim=24, heads=3):
        super().__init__()
        self.heads = heads
        self.dw = nn.ModuleList([nn.Conv1d(dim, dim, 3, padding=1, groups=dim) for _ in range(3)])
        self.pw = nn.ModuleList([nn.Linear(dim, dim) for _ in range(3)])
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        q, k, v = (
            p(c(x.transpose(1, 2)).transpose(1, 2)).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for c, p in zip(self.dw, self.pw, strict=True)
        )
        keep = torch.ones(x.size(1), x.size(1), dtype=torch.bool, device=x.device).tril()
        return self.proj(F.scaled_dot_product_attention(q, k, v, attn_mask=keep).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return ConvProjAttention()


EXPECTED = {"kind": "future-leak-nonattention", "severity": "error"}
CALL = {
    "attention": "causal",
    "layout": "BLD",
    "inputs": {"x": (2, 6, 24)},
    "mask": None,
    "causal": True,
    "embed_dim": 24,
    "heads": 3,
    "head_dim": 8,
    "returns": "out",
}
