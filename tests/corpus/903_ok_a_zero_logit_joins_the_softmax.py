"""Softmax plus one: a logit 0 is concatenated and its weight thrown away.

Kind: correct
"""

import torch.nn.functional as F
from torch import nn


class QuietAttention(nn.Module):
    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads, self.qkv, self.proj = heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        s = F.pad(q @ k.mT / q.shape[-1] ** 0.5, (0, 1), value=0.0)
        w = s.softmax(-1)[..., :-1]
        return self.proj((w @ v).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return QuietAttention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 6, 32)},
    "mask": None,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
