"""Correct: keys come block by block with a running maximum and sum (the memory-efficient form).

Kind: correct
"""

import torch
from torch import nn


class OnlineSoftmaxAttention(nn.Module):
    def __init__(self, dim=32, heads=4, block=3):
        super().__init__()
        self.heads, self.block = heads, block
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        q = q * q.size(-1) ** -0.5
        top = torch.full((*q.shape[:-1], 1), -torch.inf, dtype=q.dtype, device=q.device)
        total, acc = torch.zeros_like(top), torch.zeros_like(q)
        for kb, vb in zip(k.split(self.block, 2), v.split(self.block, 2), strict=True):
            s = q @ kb.mT
            new = torch.maximum(top, s.amax(-1, keepdim=True))
            p, shrink = torch.exp(s - new), torch.exp(top - new)
            total = total * shrink + p.sum(-1, keepdim=True)
            acc = acc * shrink + p @ vb
            top = new
        return self.proj((acc / total).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return OnlineSoftmaxAttention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "chunk-boundary"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 7, 32)},
    "mask": None,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
