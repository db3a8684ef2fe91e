"""Heads are stacked on the batch axis with cat (head-major) and read back as if they were batch-major.

Kind: batch-cross-talk
"""

import torch
from torch import nn


class StackedHeads(nn.Module):
    def __init__(self, num_units=24, num_heads=3):
        super().__init__()
        self.num_heads = num_heads
        self.q, self.k, self.v = (nn.Linear(num_units, num_units) for _ in range(3))

    def forward(self, queries, keys):
        Q = torch.cat(self.q(queries).chunk(self.num_heads, dim=2), dim=0)
        K = torch.cat(self.k(keys).chunk(self.num_heads, dim=2), dim=0)
        V = torch.cat(self.v(keys).chunk(self.num_heads, dim=2), dim=0)
        A = torch.softmax(torch.bmm(Q, K.transpose(1, 2)) / K.size(-1) ** 0.5, dim=-1)
        out = torch.bmm(A, V)
        B = queries.size(0)
        return out.view(B, self.num_heads, out.size(1), out.size(2)).transpose(1, 2).flatten(2) + queries


def build() -> nn.Module:
    return StackedHeads()


EXPECTED = {"kind": "batch-cross-talk", "severity": "error"}
CALL = {
    "attention": "cross",
    "layout": "BLD",
    "inputs": {"queries": (2, 5, 24), "keys": (2, 7, 24)},
    "query_arg": "queries",
    "context_arg": "keys",
    "mask": None,
    "embed_dim": 24,
    "heads": 3,
    "head_dim": 8,
    "returns": "out",
}
