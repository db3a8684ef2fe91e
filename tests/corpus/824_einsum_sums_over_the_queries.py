"""The second einsum sums over the query letter.

Kind: weights-transposed
"""

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, dim=32, heads=4, dim_head=8):
        super().__init__()
        self.heads, self.scale = heads, dim_head**-0.5
        self.to_qkv = nn.Linear(dim, heads * dim_head * 3, bias=False)
        self.to_out = nn.Linear(heads * dim_head, dim)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (self.heads, -1)) for t in self.to_qkv(x).chunk(3, dim=-1))
        dots = torch.einsum("b i h d, b j h d -> b h i j", q, k) * self.scale
        attn = dots.softmax(dim=-1)
        out = torch.einsum("b h i j, b i h d -> b j h d", attn, v)
        return self.to_out(out.flatten(2))


def build() -> nn.Module:
    return Attention()


EXPECTED = {"kind": "weights-transposed", "severity": "error"}
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
