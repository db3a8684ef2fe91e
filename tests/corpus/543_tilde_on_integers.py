"""~mask is right for bool; for the integer masks that the docstring allows, ~1 is -2 and ~0 is -1: both are true.

Kind: mask-dtype
"""

import torch
from torch import nn


class GlobalAttentionPool(nn.Module):
    """mask: [B, L] int64 from the tokenizer, 1 = token, 0 = padding."""

    def __init__(self, dim=24, heads=3):
        super().__init__()
        self.q = nn.Parameter(torch.randn(heads, dim // heads))
        self.k, self.v = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.heads = heads

    def forward(self, tokens, mask=None):
        k = self.k(tokens).unflatten(-1, (self.heads, -1))
        v = self.v(tokens).unflatten(-1, (self.heads, -1))
        s = torch.einsum("hd,blhd->bhl", self.q, k) / k.shape[-1] ** 0.5
        if mask is not None:
            s = s.masked_fill((~mask).bool().unsqueeze(1), -1e9)
        return torch.einsum("bhl,blhd->bhd", s.softmax(-1), v).flatten(1)


def build() -> nn.Module:
    return GlobalAttentionPool()


EXPECTED = {"kind": "mask-dtype", "severity": "error"}
CALL = {
    "attention": "pool",
    "layout": "BLD",
    "inputs": {"tokens": (2, 6, 24)},
    "mask": {"arg": "mask", "shape": (2, 6), "on": "keys", "polarity": "keep", "dtype": "long"},
    "embed_dim": 24,
    "heads": 3,
    "head_dim": 8,
    "returns": "out",
}
