"""Causal attention is computed block by block, and keys of earlier blocks are never offered.

Kind: chunk-boundary
"""

import torch
from torch import nn


class ChunkedCausal(nn.Module):
    """Full causal attention, computed in chunks of queries to save memory."""

    def __init__(self, dim=32, heads=4, chunk_size=4):
        super().__init__()
        self.heads, self.chunk_size = heads, chunk_size
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        outs = []
        for a, b, c in zip(*(t.split(self.chunk_size, dim=2) for t in (q, k, v)), strict=True):
            n = a.size(2)
            s = (a @ b.mT / a.size(-1) ** 0.5).masked_fill(torch.ones(n, n).triu(1).bool(), float("-inf"))
            outs.append(s.softmax(-1) @ c)
        return self.out(torch.cat(outs, 2).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return ChunkedCausal()


EXPECTED = {"kind": "chunk-boundary", "severity": "error"}
CALL = {
    "attention": "causal",
    "layout": "BLD",
    "inputs": {"x": (2, 10, 32)},
    "mask": None,
    "causal": True,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
