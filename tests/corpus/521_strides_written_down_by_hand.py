"""A kernel wrapper reads its inputs with hard-coded contiguous strides.

Kind: non-contiguous
"""

import torch
from torch import nn


class StridedAttention(nn.Module):
    """q, k, v: [B, L, D], any memory layout."""

    def __init__(self, heads=2):
        super().__init__()
        self.heads = heads

    def split(self, t):
        B, L, D = t.shape
        d = D // self.heads
        return torch.as_strided(t, (B, self.heads, L, d), (L * D, d, D, 1))

    def forward(self, q, k, v):
        q, k, v = self.split(q), self.split(k), self.split(v)
        p = torch.softmax(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5, -1)
        return (p @ v).transpose(1, 2).flatten(2)


def build() -> nn.Module:
    return StridedAttention()


EXPECTED = {"kind": "non-contiguous", "severity": "error"}
CALL = {
    "attention": "cross",
    "layout": "BLD",
    "inputs": {"q": (2, 5, 16), "k": (2, 7, 16), "v": (2, 7, 16)},
    "query_arg": "q",
    "context_arg": "k",
    "mask": None,
    "embed_dim": 16,
    "heads": 2,
    "head_dim": 8,
    "returns": "out",
}
