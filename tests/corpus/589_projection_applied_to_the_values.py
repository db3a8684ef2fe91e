"""The output projection receives v instead of the attended values. A residual hides it.

Kind: output-unused
"""

import torch
from torch import nn


class ResidualSelfAttention(nn.Module):
    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads, self.norm = heads, nn.LayerNorm(dim)
        self.to_qkv, self.to_out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.to_qkv(self.norm(x)).chunk(3, -1))
        attn = torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5, dim=-1)
        out = attn @ v
        out = v.transpose(1, 2).flatten(2)
        return x + self.to_out(out)


def build() -> nn.Module:
    return ResidualSelfAttention()


EXPECTED = {"kind": "output-unused", "severity": "error"}
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
