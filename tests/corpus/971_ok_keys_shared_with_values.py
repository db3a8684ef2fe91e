"""One projection serves as key and as value; True in the mask hides.

Kind: correct
"""

import torch
from torch import nn


class SharedKVAttention(nn.Module):
    """memory_mask: (B, S) bool, True = ignore"""

    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads, self.q, self.kv, self.o = heads, nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(self, x, memory, memory_mask=None):
        q = self.q(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        kv = self.kv(memory).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        s = q @ kv.mT * q.shape[-1] ** -0.5
        if memory_mask is not None:
            s = s.masked_fill(memory_mask[:, None, None], torch.finfo(s.dtype).min)
        w = s.softmax(-1)
        return self.o((w @ kv).transpose(1, 2).flatten(2)), w


def build() -> nn.Module:
    return SharedKVAttention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "cross",
    "layout": "BLD",
    "inputs": {"x": (2, 5, 32), "memory": (2, 7, 32)},
    "mask": {"arg": "memory_mask", "shape": (2, 7), "on": "memory", "polarity": "drop", "dtype": "bool"},
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "(out, weights)",
}
