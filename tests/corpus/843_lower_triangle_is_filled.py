"""The lower triangle, which should stay, is the one that is filled (the diagonal is kept).

Kind: causal-flipped
"""

import torch
from torch import nn


class CausalSelfAttention(nn.Module):
    def __init__(self, width=32, heads=4, max_len=64):
        super().__init__()
        self.heads = heads
        self.attn, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        mask = torch.full((max_len, max_len), float("-inf")).tril(-1)
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, x):
        t = x.size(1)
        q, k, v = (y.unflatten(2, (self.heads, -1)).transpose(1, 2) for y in self.attn(x).chunk(3, 2))
        scores = q @ k.transpose(2, 3) / q.size(3) ** 0.5 + self.mask[:t, :t]
        return self.proj((scores.softmax(3) @ v).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return CausalSelfAttention()


EXPECTED = {"kind": "causal-flipped", "severity": "error"}
CALL = {
    "attention": "causal",
    "layout": "BLD",
    "inputs": {"x": (2, 6, 32)},
    "mask": None,
    "causal": True,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
