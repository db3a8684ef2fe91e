"""Correct: the merge is [d, H] instead of [H, d], a fixed permutation of the columns of the output projection.

Kind: correct
"""

import torch
from torch import nn


class ChannelMajorMerge(nn.Module):
    def __init__(self, dim=24, heads=3):
        super().__init__()
        self.heads = heads
        self.to_q, self.to_k, self.to_v, self.to_out = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, x):
        # channel c of head h is feature c * heads + h, for all of q, k and v
        q, k, v = (f(x).unflatten(-1, (-1, self.heads)).permute(0, 3, 1, 2) for f in (self.to_q, self.to_k, self.to_v))
        w = torch.softmax(q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5, dim=-1)
        return self.to_out((w @ v).permute(0, 2, 3, 1).flatten(2))


def build() -> nn.Module:
    return ChannelMajorMerge()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "head-merge-order"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 6, 24)},
    "mask": None,
    "embed_dim": 24,
    "heads": 3,
    "head_dim": 8,
    "returns": "out",
}
