"""Several documents per row: a token sees earlier tokens of its own document.

Kind: correct
"""

import torch
import torch.nn.functional as F
from torch import nn


class PackedAttention(nn.Module):
    """doc_ids: (batch, tokens) long, equal within a document."""

    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads, self.qkv, self.proj = heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x, doc_ids):
        n = x.shape[1]
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        same = doc_ids[:, :, None] == doc_ids[:, None, :]
        keep = (same & torch.ones(n, n, dtype=torch.bool, device=x.device).tril()).unsqueeze(1)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=keep)
        return self.proj(y.transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return PackedAttention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "causal",
    "layout": "BLD",
    "inputs": {"x": (2, 8, 32), "doc_ids": (2, 8)},
    "mask": None,
    "causal": True,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
