"""(batch * heads, time, head) is viewed as (time, batch, width) without the transposition.

Kind: head-merge-order
"""

import torch
from torch import nn


class Attn(nn.Module):
    """x: (time, batch, width)"""

    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        t, b, c = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)

        def fold(y):
            return y.reshape(t, b * self.heads, c // self.heads).transpose(0, 1)

        q, k, v = fold(q), fold(k), fold(v)
        w = torch.softmax(q @ k.transpose(-2, -1) * (c // self.heads) ** -0.5, -1)
        return self.out((w @ v).reshape(t, b, c))


def build() -> nn.Module:
    return Attn()


EXPECTED = {"kind": "head-merge-order", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "LBD",
    "inputs": {"x": (6, 2, 32)},
    "mask": None,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
