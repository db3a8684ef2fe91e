"""[B * H, L, d] is viewed as [L, B, D] without the transpose.

Kind: head-merge-order
"""

import torch
from torch import nn


class FoldedHeads(nn.Module):
    """query: [L, B, D]."""

    def __init__(self, d=24, h=3):
        super().__init__()
        self.h, self.in_proj, self.out_proj = h, nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, query):
        L, B, D = query.shape
        q, k, v = (t.reshape(L, B * self.h, D // self.h).transpose(0, 1) for t in self.in_proj(query).chunk(3, -1))
        p = torch.baddbmm(torch.zeros(1, 1, 1, dtype=q.dtype), q, k.transpose(1, 2), alpha=q.size(-1) ** -0.5).softmax(
            -1
        )
        return self.out_proj(torch.bmm(p, v).reshape(L, B, D))


def build() -> nn.Module:
    return FoldedHeads()


EXPECTED = {"kind": "head-merge-order", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "LBD",
    "inputs": {"query": (6, 2, 24)},
    "mask": None,
    "embed_dim": 24,
    "heads": 3,
    "head_dim": 8,
    "returns": "out",
}
