"""Grouped queries in five axes: (batch, groups, heads of the group, tokens, head).

Kind: correct
"""

import torch
from torch import nn


class GQA(nn.Module):
    def __init__(self, d=32, heads=4, groups=2):
        super().__init__()
        self.h, self.g, self.e = heads, groups, d // heads
        self.q, self.kv, self.o = nn.Linear(d, d), nn.Linear(d, 2 * groups * self.e), nn.Linear(d, d)

    def forward(self, x):
        B, T, D = x.shape
        q = self.q(x).view(B, T, self.g, self.h // self.g, self.e).permute(0, 2, 3, 1, 4)
        k, v = self.kv(x).view(B, T, 2, self.g, 1, self.e).permute(2, 0, 3, 4, 1, 5)
        s = (q @ k.mT / self.e**0.5).masked_fill(
            torch.ones(T, T, dtype=torch.bool, device=x.device).triu(1), float("-inf")
        )
        return self.o((s.softmax(-1) @ v).permute(0, 3, 1, 2, 4).reshape(B, T, D))


def build() -> nn.Module:
    return GQA()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "causal",
    "layout": "BLD",
    "inputs": {"x": (2, 6, 32)},
    "mask": None,
    "causal": True,
    "embed_dim": 32,
    "heads": 4,
    "kv_heads": 2,
    "head_dim": 8,
    "returns": "out",
}
