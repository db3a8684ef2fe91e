"""All projections but the values start at zero: the gradient of queries and keys is zero for ever.

Kind: dead-qk
"""

import torch.nn.functional as F
from torch import nn


class SelfAttention(nn.Module):
    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads = heads
        self.qk, self.v, self.proj = nn.Linear(dim, 2 * dim), nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.reset_parameters()

    def reset_parameters(self):
        nn.init.constant_(self.qk.weight, 0.0)
        nn.init.constant_(self.qk.bias, 0.0)
        nn.init.xavier_uniform_(self.v.weight)

    def forward(self, x):
        q, k = self.qk(x).unflatten(-1, (2, self.heads, -1)).permute(2, 0, 3, 1, 4)
        v = self.v(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        return self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return SelfAttention()


EXPECTED = {"kind": "dead-qk", "severity": "error"}
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
