"""Padding is zeroed after the softmax and the row is not divided by what is left. Sequence-first.

Kind: mask-after-softmax
"""

import torch
from torch import nn


class SeqFirst(nn.Module):
    """h: [length, batch, hidden]; pad: bool [batch, length], True = padding."""

    def __init__(self, hidden=24, n=3):
        super().__init__()
        self.n = n
        self.qkv = nn.Linear(hidden, 3 * hidden)
        self.o = nn.Linear(hidden, hidden)

    def forward(self, h, pad=None):
        L, N, D = h.shape
        q, k, v = self.qkv(h).reshape(L, N, 3, self.n, D // self.n).unbind(2)
        w = torch.einsum("inhd,jnhd->nhij", q, k) / (D // self.n) ** 0.5
        w = w.softmax(-1)
        if pad is not None:
            w = w * (~pad)[:, None, None, :]
        return self.o(torch.einsum("nhij,jnhd->inhd", w, v).reshape(L, N, D))


def build() -> nn.Module:
    return SeqFirst()


EXPECTED = {"kind": "mask-after-softmax", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "LBD",
    "inputs": {"h": (6, 2, 24)},
    "mask": {"arg": "pad", "shape": (2, 6), "on": "keys", "polarity": "ignore", "dtype": "bool"},
    "embed_dim": 24,
    "heads": 3,
    "head_dim": 8,
    "returns": "out",
}
