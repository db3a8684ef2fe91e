"""Dropout acts on scores that already hold the mask: dropped entries of the future come back as 0.

Kind: dropout-wrong-place
"""

import torch
import torch.nn.functional as F
from torch import nn


class CausalAttention(nn.Module):
    def __init__(self, dim=32, heads=4, dropout=0.25):
        super().__init__()
        self.heads, self.qkv, self.proj = heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        n = x.shape[1]
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(
            torch.ones(n, n, dtype=torch.bool, device=x.device).triu(1), -1e9
        )
        attn = F.softmax(self.dropout(scores), dim=-1)
        return self.proj((attn @ v).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return CausalAttention()


EXPECTED = {"kind": "dropout-wrong-place", "severity": "error"}
CALL = {
    "attention": "causal",
    "layout": "BLD",
    "inputs": {"x": (2, 8, 32)},
    "mask": None,
    "causal": True,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
