"""Training multiplies by a temperature of its own, evaluation lets the kernel choose.

Kind: path-mismatch
"""

import torch
import torch.nn.functional as F
from torch import nn


class FastAttention(nn.Module):
    def __init__(self, dim=32, heads=4, scale=None):
        super().__init__()
        self.heads, self.scale = heads, scale or dim**-0.5
        self.to_qkv, self.to_out = nn.Linear(dim, dim * 3, bias=False), nn.Linear(dim, dim)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.to_qkv(x).chunk(3, -1))
        if self.training:
            out = torch.einsum("bhij,bhjd->bhid", (torch.einsum("bhid,bhjd->bhij", q, k) * self.scale).softmax(-1), v)
        else:
            out = F.scaled_dot_product_attention(q, k, v)
        return self.to_out(out.transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return FastAttention()


EXPECTED = {"kind": "path-mismatch", "severity": "error"}
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
