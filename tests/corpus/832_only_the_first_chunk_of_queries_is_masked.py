"""Queries go in slices to save memory; from the second slice on the mask is lost.

Kind: mask-ignored
"""

import torch
from torch import nn


class SlicedCrossAttention(nn.Module):
    def __init__(self, dim=32, heads=4, slice_size=4):
        super().__init__()
        self.heads, self.slice_size = heads, slice_size
        self.to_q, self.to_k, self.to_v = (nn.Linear(dim, dim, bias=False) for _ in range(3))
        self.to_out = nn.Linear(dim, dim)

    def forward(self, x, context, context_mask=None):
        q, k, v = (
            t.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for t in (self.to_q(x), self.to_k(context), self.to_v(context))
        )
        out = []
        for part in q.split(self.slice_size, dim=2):
            sim = part @ k.mT * q.shape[-1] ** -0.5
            if context_mask is not None:
                sim = sim.masked_fill(~context_mask[:, None, None, :], -torch.finfo(sim.dtype).max)
                context_mask = None
            out.append(sim.softmax(-1) @ v)
        return self.to_out(torch.cat(out, dim=2).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return SlicedCrossAttention()


EXPECTED = {"kind": "mask-ignored", "severity": "error"}
CALL = {
    "attention": "cross",
    "layout": "BLD",
    "inputs": {"x": (2, 10, 32), "context": (2, 6, 32)},
    "mask": {"arg": "context_mask", "shape": (2, 6), "on": "keys", "polarity": "keep", "dtype": "bool"},
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
