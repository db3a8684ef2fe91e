"""An item without a visible key gives a row of -inf: NaN in its output.

Kind: fully-masked-nan
"""

import torch
from torch import nn


class MemoryReader(nn.Module):
    """memory_mask: bool [B, M], True = slot is filled. An episode may have no filled slot yet."""

    def __init__(self, dim=24, heads=2):
        super().__init__()
        self.heads = heads
        self.query, self.memory, self.out = nn.Linear(dim, dim), nn.Linear(dim, 2 * dim), nn.Linear(dim, dim)

    def forward(self, state, memory, memory_mask=None):
        q = self.query(state).unflatten(-1, (self.heads, -1))
        k, v = self.memory(memory).unflatten(-1, (2, self.heads, -1)).unbind(2)
        logits = torch.einsum("bqhd,bmhd->bhqm", q, k) / q.shape[-1] ** 0.5
        if memory_mask is not None:
            bias = torch.zeros_like(memory_mask, dtype=logits.dtype).masked_fill(~memory_mask, -torch.inf)
            logits = logits + bias[:, None, None]
        read = torch.einsum("bhqm,bmhd->bqhd", logits.softmax(-1), v)
        return state + self.out(read.flatten(2))


def build() -> nn.Module:
    return MemoryReader()


EXPECTED = {"kind": "fully-masked-nan", "severity": "error"}
CALL = {
    "attention": "cross",
    "layout": "BLD",
    "inputs": {"state": (2, 3, 24), "memory": (2, 6, 24)},
    "query_arg": "state",
    "context_arg": "memory",
    "mask": {"arg": "memory_mask", "shape": (2, 6), "on": "context", "polarity": "keep", "dtype": "bool"},
    "embed_dim": 24,
    "heads": 2,
    "head_dim": 12,
    "returns": "out",
}
