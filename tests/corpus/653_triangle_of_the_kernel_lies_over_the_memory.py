"""The keys are a memory and then the entries; the kernel's triangle begins at the memory, and no entry reads an earlier one.

Kind: causal-alignment
"""

import torch
import torch.nn.functional as F
from torch import nn


class DiaryLayer(nn.Module):
    """An entry of a diary reads the memory, itself and the entries before. `memory` is optional: what was written before, (batch, earlier, width)."""

    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.q, self.kv, self.out = nn.Linear(width, width), nn.Linear(width, 2 * width), nn.Linear(width, width)
        self.start = nn.Parameter(torch.randn(1, 1, width))

    def split(self, t):
        return t.unflatten(2, (self.heads, -1)).transpose(1, 2)

    def forward(self, entries, memory=None):
        source = entries if memory is None else torch.cat((memory, entries), 1)
        k, v = map(self.split, self.kv(source).chunk(2, 2))
        q = self.split(self.q(entries))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return DiaryLayer()


EXPECTED = {"kind": "causal-alignment", "severity": "error"}
CALL = {
    "attention": "causal",
    "layout": "BLD",
    "inputs": {"entries": (2, 5, 32), "memory": (2, 6, 32)},
    "query_arg": "entries",
    "context_arg": "memory",
    "mask": None,
    "causal": True,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
