"""Correct: AlphaFold-like row attention; an optional pair bias is added, and a sigmoid gate multiplies the heads.

Kind: correct
"""

import torch
from torch import nn


class PairBiasAttention(nn.Module):
    """x: [B, N, C]; pair_bias: [B, H, N, N], added to the logits."""

    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v = (nn.Linear(dim, dim, bias=False) for _ in range(3))
        self.g, self.o = nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(self, x, pair_bias=None):
        q, k, v = (f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
        a = torch.einsum("bhqc,bhkc->bhqk", q * q.shape[-1] ** -0.5, k)
        if pair_bias is not None:
            a = a + pair_bias
        o = torch.einsum("bhqk,bhkc->bqhc", a.softmax(-1), v).flatten(2)
        return self.o(torch.sigmoid(self.g(x)) * o)


def build() -> nn.Module:
    return PairBiasAttention()


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
