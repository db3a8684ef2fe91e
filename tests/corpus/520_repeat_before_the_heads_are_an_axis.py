"""[B, T, G * d] is repeated along T and then viewed as [B, T, H, d]: positions are mixed.

Kind: gqa-repeat-axis
"""

import torch
from torch import nn


class MultiGroupAttention(nn.Module):
    def __init__(self, width=32, heads=4, groups=2):
        super().__init__()
        self.heads, self.rep, self.hd = heads, heads // groups, width // heads
        self.wq = nn.Linear(width, heads * self.hd)
        self.wkv = nn.Linear(width, 2 * groups * self.hd)
        self.wo = nn.Linear(heads * self.hd, width)

    def forward(self, x):
        B, T, _ = x.shape
        k, v = self.wkv(x).chunk(2, -1)
        k = k.repeat(1, self.rep, 1).view(B, T, self.heads, self.hd)
        v = v.repeat(1, self.rep, 1).view(B, T, self.heads, self.hd)
        q = self.wq(x).view(B, T, self.heads, self.hd)
        p = torch.einsum("bihd,bjhd->bhij", q, k).mul(self.hd**-0.5).softmax(-1)
        return self.wo(torch.einsum("bhij,bjhd->bihd", p, v).reshape(B, T, -1))


def build() -> nn.Module:
    return MultiGroupAttention()


EXPECTED = {"kind": "gqa-repeat-axis", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 6, 32)},
    "mask": None,
    "embed_dim": 32,
    "heads": 4,
    "kv_heads": 2,
    "head_dim": 8,
    "returns": "out",
}
