"""Stick breaking instead of softmax: from the nearest key back, each takes a share of what is left.

Kind: correct
"""

import torch
import torch.nn.functional as F
from torch import nn


class StickBreakingAttention(nn.Module):
    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads, self.qkv, self.proj = heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        n = x.shape[1]
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        z = q @ k.mT / q.shape[-1] ** 0.5
        allowed = torch.ones(n, n, dtype=torch.bool, device=x.device).tril()
        left = F.logsigmoid(-z).masked_fill(~allowed, 0.0)
        after = left.flip(-1).cumsum(-1).flip(-1) - left
        w = torch.exp(F.logsigmoid(z) + after).masked_fill(~allowed, 0.0)
        return self.proj((w @ v).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return StickBreakingAttention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "causal",
    "layout": "BLD",
    "inputs": {"x": (2, 7, 32)},
    "mask": None,
    "causal": True,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
