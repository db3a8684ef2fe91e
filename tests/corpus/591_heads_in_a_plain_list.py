"""The heads are kept in a Python list: no optimiser ever sees them.

Kind: unregistered-parameters
"""

import torch
from torch import nn


class AttentionHead(nn.Module):
    def __init__(self, dim_in, dim_q, dim_k):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(dim_in, dim_q), nn.Linear(dim_in, dim_k), nn.Linear(dim_in, dim_k)

    def forward(self, query, key, value):
        q, k = self.q(query), self.k(key)
        w = torch.softmax(q.bmm(k.transpose(1, 2)) / q.size(-1) ** 0.5, dim=-1)
        return w.bmm(self.v(value))


class MultiHeadAttention(nn.Module):
    def __init__(self, num_heads=4, dim_in=32, dim_k=8):
        super().__init__()
        self.heads = [AttentionHead(dim_in, dim_k, dim_k) for _ in range(num_heads)]
        self.linear = nn.Linear(num_heads * dim_k, dim_in)

    def forward(self, query, key, value):
        return self.linear(torch.cat([h(query, key, value) for h in self.heads], dim=-1))


def build() -> nn.Module:
    return MultiHeadAttention()


EXPECTED = {"kind": "unregistered-parameters", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"query": (2, 6, 32), "key": "query", "value": "query"},
    "mask": None,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
