"""The weights are computed under no_grad "to save memory": queries and keys never learn.

Kind: gradient-cut
"""

import torch
from torch import nn


class MemorySavingAttention(nn.Module):
    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.output = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, x):
        q, k, v = (f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in (self.query, self.key, self.value))
        with torch.no_grad():
            w = torch.softmax(q @ k.mT / q.size(-1) ** 0.5, dim=-1)
        return self.output((w @ v).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return MemorySavingAttention()


EXPECTED = {"kind": "gradient-cut", "severity": "error"}
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
