"""`dim=1` of (batch, heads, queries, keys) is the head.

Kind: softmax-axis-head
"""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, dim=32, n_heads=4):
        super().__init__()
        self.n_heads = n_heads
        self.norm = nn.LayerNorm(dim)
        self.to_qkv = nn.Linear(dim, dim * 3)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, d = x.size()
        q, k, v = self.to_qkv(self.norm(x)).view(b, n, 3, self.n_heads, -1).permute(2, 0, 3, 1, 4)
        energy = torch.einsum("bhqd,bhkd->bhqk", [q, k])
        attention = torch.softmax(energy / (d // self.n_heads) ** 0.5, dim=1)
        out = torch.einsum("bhqk,bhkd->bqhd", [attention, v]).reshape(b, n, d)
        return x + self.to_out(out)


def build() -> nn.Module:
    return Block()


EXPECTED = {"kind": "softmax-axis-head", "severity": "error"}
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
