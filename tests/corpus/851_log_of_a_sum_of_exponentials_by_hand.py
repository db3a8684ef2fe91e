"""`exp(s - log(sum(exp(s))))` without taking the maximum out: large scores overflow.

Kind: logit-overflow
"""

import torch
from torch import nn


class LogAttention(nn.Module):
    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads, self.qkv, self.proj = heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        s = q @ k.mT / q.shape[-1] ** 0.5
        w = torch.exp(s - s.exp().sum(-1, keepdim=True).log())
        return self.proj((w @ v).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return LogAttention()


EXPECTED = {"kind": "logit-overflow", "severity": "warning"}
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
