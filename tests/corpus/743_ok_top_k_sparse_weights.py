"""Correct: only the four largest logits of a query stay; a query sees the keys it likes.

Kind: correct
"""

import torch
from torch import nn


class TopKAttention(nn.Module):
    def __init__(self, dim=32, heads=4, sparse_topk=4):
        super().__init__()
        self.heads, self.sparse_topk = heads, sparse_topk
        self.to_qkv, self.to_out = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim)

    def forward(self, x):
        q, k, v = self.to_qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        dots = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
        if self.sparse_topk < dots.shape[-1]:
            lowest = dots.topk(self.sparse_topk, dim=-1).values[..., -1:]
            dots = dots.masked_fill(dots < lowest, -torch.finfo(dots.dtype).max)
        return self.to_out((dots.softmax(dim=-1) @ v).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return TopKAttention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "shift-mask"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 8, 32)},
    "mask": None,
    "sparse": True,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
