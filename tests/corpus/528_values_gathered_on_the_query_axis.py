"""The last einsum sums over the query axis: weights transposed.

Kind: weights-transposed
"""

import torch
from torch import einsum, nn


class Attention(nn.Module):
    def __init__(self, dim=32, heads=4, dim_head=8):
        super().__init__()
        self.heads, self.scale = heads, dim_head**-0.5
        self.to_qkv = nn.Linear(dim, heads * dim_head * 3, bias=False)
        self.to_out = nn.Linear(heads * dim_head, dim)

    def forward(self, x):
        b, n, _ = x.shape
        q, k, v = (t.reshape(b, n, self.heads, -1).transpose(1, 2) for t in self.to_qkv(x).chunk(3, dim=-1))
        sim = einsum("b h i d, b h j d -> b h i j", q, k) * self.scale
        attn = sim.softmax(dim=-1)
        out = einsum("b h i j, b h i d -> b h j d", attn, v)
        return self.to_out(torch.cat(out.unbind(1), dim=-1))


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
    "probe": {"qkv": "to_qkv", "heads": 4},
}
