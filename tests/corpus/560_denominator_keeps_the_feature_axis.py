"""The denominator multiplies query and key sums feature by feature instead of summing: it differs per channel.

Kind: linear-normaliser-wrong
"""

import torch.nn.functional as F
from torch import nn


class LinearAttention(nn.Module):
    def __init__(self, dim=32, heads=4, eps=1e-6):
        super().__init__()
        self.heads, self.eps = heads, eps
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        q, k = F.elu(q) + 1, F.elu(k) + 1
        z = q * k.sum(dim=-2, keepdim=True) + self.eps
        out = q @ (k.transpose(-1, -2) @ v) / z
        return self.proj(out.transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return LinearAttention()


EXPECTED = {"kind": "linear-normaliser-wrong", "severity": "error"}
CALL = {
    "attention": "linear",
    "layout": "BLD",
    "inputs": {"x": (2, 9, 32)},
    "mask": None,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
