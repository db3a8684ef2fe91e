"""Queries go by in groups of eight, and the last group is as short as it has to be.

Kind: correct
"""

import torch
from torch import nn


class ThriftyMixer(nn.Module):
    """x + attention(norm(x)), computed for a few queries at a time; any length, any token sees all."""

    GROUP = 8

    def __init__(self, width=30, heads=5):
        super().__init__()
        self.heads = heads
        self.norm, self.enter, self.leave = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)

    def mix(self, q, k, v):
        weights = torch.softmax(torch.einsum("nthc,nshc->nhts", q, k) * k.shape[-1] ** -0.5, dim=3)
        return torch.einsum("nhts,nshc->nthc", weights, v)

    def forward(self, x):
        q, k, v = self.enter(self.norm(x)).unflatten(2, (3, self.heads, -1)).unbind(2)
        read = q.new_zeros(q.shape)
        for begin in range(0, q.shape[1], self.GROUP):
            end = begin + self.GROUP
            read[:, begin:end] = self.mix(q[:, begin:end], k, v)
        return x + self.leave(read.flatten(2))


def build() -> nn.Module:
    return ThriftyMixer()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "chunk-tail"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 11, 30)},
    "mask": None,
    "embed_dim": 30,
    "heads": 5,
    "head_dim": 6,
    "returns": "out",
}
