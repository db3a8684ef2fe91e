"""Scores use head h with group h // r, values use group h % groups.

Kind: gqa-order
"""

import torch
from torch import nn


class GQA(nn.Module):
    def __init__(self, d=32, heads=4, groups=2):
        super().__init__()
        self.h, self.g, self.e = heads, groups, d // heads
        self.q = nn.Linear(d, d)
        self.kv = nn.Linear(d, 2 * groups * self.e)
        self.o = nn.Linear(d, d)

    def forward(self, x):
        B, T, D = x.shape
        q = self.q(x).view(B, T, self.g, self.h // self.g, self.e)
        k, v = self.kv(x).view(B, T, 2, self.g, self.e).unbind(2)
        s = torch.einsum("btgre,bsge->bgrts", q, k) / self.e**0.5
        p = s.softmax(-1).flatten(1, 2)
        v = v.transpose(1, 2).repeat(1, self.h // self.g, 1, 1)
        return self.o((p @ v).transpose(1, 2).reshape(B, T, D))


def build() -> nn.Module:
    return GQA()


EXPECTED = {"kind": "gqa-order", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 6, 32)},
    "mask": None,
    "embed_dim": 32,
    "heads": 4,
    "kv_heads": 2,
    "head_dim": 8,
    "returns": "out",
}
