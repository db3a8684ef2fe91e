"""Correct: a (B, T, S) mask where rows of padding queries are empty; their output is zeroed, gradients stay finite.

Kind: correct
"""

import torch
from torch import nn


class PairMasked(nn.Module):
    """mask: bool [B, T, S], True = query t may read key s."""

    def __init__(self, dim=24, heads=2):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, x, mask=None):
        q, k, v = (f(x).unflatten(-1, (self.heads, -1)) for f in (self.q, self.k, self.v))
        s = torch.einsum("bthd,bshd->bhts", q, k) / q.shape[-1] ** 0.5
        if mask is not None:
            hide = ~mask[:, None]
            w = s.masked_fill(hide, torch.finfo(s.dtype).min).softmax(-1).masked_fill(hide, 0.0)
        else:
            w = s.softmax(-1)
        return self.o(torch.einsum("bhts,bshd->bthd", w, v).flatten(2))


def build() -> nn.Module:
    return PairMasked()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "mask-after-softmax"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 6, 24)},
    "mask": {"arg": "mask", "shape": (2, 6, 6), "on": "keys", "polarity": "keep", "dtype": "bool"},
    "embed_dim": 24,
    "heads": 2,
    "head_dim": 12,
    "returns": "out",
}
