"""`triu(..., 2)` leaves the next token visible.

Kind: causal-off-by-one
"""

import torch
import torch.nn.functional as F
from torch import nn


class MaskedSelfAttention(nn.Module):
    """Causal (left to right) self attention."""

    def __init__(self, emb=24, heads=3):
        super().__init__()
        self.h, self.tokeys, self.toqueries, self.tovalues = (
            heads,
            nn.Linear(emb, emb),
            nn.Linear(emb, emb),
            nn.Linear(emb, emb),
        )
        self.unifyheads = nn.Linear(emb, emb)

    def forward(self, x):
        b, t, e = x.size()
        s = e // self.h
        queries, keys, values = (
            f(x).view(b, t, self.h, s).transpose(1, 2).reshape(b * self.h, t, s)
            for f in (self.toqueries, self.tokeys, self.tovalues)
        )
        dot = torch.bmm(queries / s**0.25, (keys / s**0.25).transpose(1, 2))
        i = torch.triu_indices(t, t, offset=2)
        dot[:, i[0], i[1]] = float("-inf")
        out = torch.bmm(F.softmax(dot, dim=2), values).view(b, self.h, t, s)
        return self.unifyheads(out.transpose(1, 2).reshape(b, t, e))


def build() -> nn.Module:
    return MaskedSelfAttention()


EXPECTED = {"kind": "causal-off-by-one", "severity": "error"}
CALL = {
    "attention": "causal",
    "layout": "BLD",
    "inputs": {"idx_emb": (2, 7, 24)},
    "mask": None,
    "causal": True,
    "embed_dim": 24,
    "heads": 3,
    "head_dim": 8,
    "returns": "out",
}
