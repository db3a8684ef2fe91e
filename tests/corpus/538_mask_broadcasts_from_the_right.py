"""A [B, S] mask becomes [B, 1, S], which lines up with the head axis of [B, H, T, S] (runs when B is 1 or H).

Kind: mask-batch-head-order
"""

import torch
from torch import nn


class CrossAttention(nn.Module):
    """memory_mask: bool [B, S], True = hidden."""

    def __init__(self, d=16, h=2):
        super().__init__()
        self.h = h
        self.q, self.kv, self.o = nn.Linear(d, d), nn.Linear(d, 2 * d), nn.Linear(d, d)

    def forward(self, tgt, memory, memory_mask=None):
        B, T, D = tgt.shape
        q = self.q(tgt).view(B, T, self.h, -1).transpose(1, 2)
        k, v = (t.view(B, memory.size(1), self.h, -1).transpose(1, 2) for t in self.kv(memory).chunk(2, -1))
        s = q @ k.transpose(2, 3) * (D // self.h) ** -0.5
        if memory_mask is not None:
            s = s.masked_fill(memory_mask.unsqueeze(1), float("-inf"))
        return self.o((torch.softmax(s, 3) @ v).transpose(1, 2).reshape(B, T, D))


def build() -> nn.Module:
    return CrossAttention()


EXPECTED = {"kind": "mask-batch-head-order", "severity": "error"}
CALL = {
    "attention": "cross",
    "layout": "BLD",
    "inputs": {"tgt": (2, 4, 16), "memory": (2, 6, 16)},
    "query_arg": "tgt",
    "context_arg": "memory",
    "mask": {"arg": "memory_mask", "shape": (2, 6), "on": "context", "polarity": "ignore", "dtype": "bool"},
    "embed_dim": 16,
    "heads": 2,
    "head_dim": 8,
    "returns": "out",
}
