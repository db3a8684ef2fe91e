"""Correct: both streams read the other one as it was before the update; a dict is returned.

Kind: correct
"""

import torch.nn.functional as F
from torch import nn


class CoAttention(nn.Module):
    def __init__(self, dim=24, heads=3):
        super().__init__()
        self.heads = heads
        self.q, self.kv, self.o = nn.Linear(dim, dim), nn.Linear(dim, 2 * dim), nn.Linear(dim, dim)

    def read(self, a, b):
        q = self.q(a).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        k, v = self.kv(b).unflatten(-1, (2, self.heads, -1)).permute(2, 0, 3, 1, 4)
        return self.o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))

    def forward(self, desc0, desc1):
        delta0, delta1 = self.read(desc0, desc1), self.read(desc1, desc0)
        return {"desc0": desc0 + delta0, "desc1": desc1 + delta1}


def build() -> nn.Module:
    return CoAttention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "stream-asymmetry"}
CALL = {
    "attention": "cross",
    "layout": "BLD",
    "inputs": {"desc0": (2, 5, 24), "desc1": (2, 5, 24)},
    "mask": None,
    "embed_dim": 24,
    "heads": 3,
    "head_dim": 8,
    "returns": "{desc0, desc1}",
    "symmetric_inputs": ("desc0", "desc1"),
}
