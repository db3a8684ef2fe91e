"""Blocks of keys, running maximum and running sum; keys beyond the length of the item get no weight.

Kind: correct
"""

import torch
from torch import nn


class BlockwiseCross(nn.Module):
    """lengths: (batch,) number of valid memory tokens, at least 1."""

    def __init__(self, dim=32, heads=4, block=4):
        super().__init__()
        self.heads, self.block = heads, block
        self.q, self.kv, self.o = nn.Linear(dim, dim), nn.Linear(dim, 2 * dim), nn.Linear(dim, dim)

    def forward(self, query, memory, lengths=None):
        q = self.q(query).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        k, v = self.kv(memory).unflatten(-1, (2, self.heads, -1)).permute(2, 0, 3, 1, 4)
        q = q * q.shape[-1] ** -0.5
        running = q.new_full((*q.shape[:3], 1), torch.finfo(q.dtype).min)
        denom, num = torch.zeros_like(running), torch.zeros_like(q)
        for start in range(0, k.shape[2], self.block):
            kb, vb = k[:, :, start : start + self.block], v[:, :, start : start + self.block]
            s = q @ kb.mT
            if lengths is not None:
                j = torch.arange(start, start + kb.shape[2], device=q.device)
                s = s.masked_fill((j >= lengths[:, None])[:, None, None], float("-inf"))
            top = torch.maximum(running, s.amax(-1, keepdim=True))
            p, decay = torch.exp(s - top), torch.exp(running - top)
            denom, num, running = denom * decay + p.sum(-1, keepdim=True), num * decay + p @ vb, top
        return self.o((num / denom).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return BlockwiseCross()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "cross",
    "layout": "BLD",
    "inputs": {"query": (2, 4, 32), "memory": (2, 10, 32)},
    "mask": {"arg": "lengths", "shape": (2,), "on": "memory", "polarity": "lengths", "dtype": "long"},
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
