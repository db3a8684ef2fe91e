"""Pre-norm block with softplus features: the share of each channel is divided by that channel's product alone.

Kind: linear-normaliser-wrong
"""

import torch.nn.functional as F
from torch import nn


class SharesBlock(nn.Module):
    """(batch, stations, width) -> the same"""

    def __init__(self, width=30, heads=3):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.to_q, self.to_k, self.to_v = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.merge = nn.Linear(width, width)
        self.ff = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def shares(self, q, k, v):
        whole = q * k.sum(dim=2, keepdim=True)
        return (q @ (k.transpose(2, 3) @ v)) / (whole + 1e-6)

    def forward(self, x):
        y = self.norm1(x)
        q, k, v = (f(y).unflatten(2, (self.heads, -1)).transpose(1, 2) for f in (self.to_q, self.to_k, self.to_v))
        out = self.shares(F.softplus(q), F.softplus(k), v)
        x = x + self.merge(out.transpose(1, 2).flatten(2))
        return x + self.ff(self.norm2(x))


def build() -> nn.Module:
    return SharesBlock()


EXPECTED = {"kind": "linear-normaliser-wrong", "severity": "error"}
CALL = {
    "attention": "linear",
    "layout": "BLD",
    "inputs": {"x": (2, 9, 30)},
    "mask": None,
    "embed_dim": 30,
    "heads": 3,
    "head_dim": 10,
    "returns": "out",
}
