"""The first token (a class token) is always visible; the mask of the caller is copied, not changed.

Kind: correct
"""

import torch.nn.functional as F
from torch import nn


class ClassTokenAttention(nn.Module):
    """mask: (b, n) bool, True = keep; token 0 is a class token and stays visible."""

    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads, self.qkv, self.proj = heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        if mask is not None:
            mask = mask.clone()
            mask[:, 0] = True
            mask = mask[:, None, None]
        return self.proj(F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return ClassTokenAttention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 6, 32)},
    "mask": {"arg": "mask", "shape": (2, 6), "on": "keys", "polarity": "keep", "dtype": "bool"},
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
