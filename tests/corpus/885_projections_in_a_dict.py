"""A plain dict holds the projections: `parameters()` does not list them.

Kind: unregistered-parameters
"""

import torch.nn.functional as F
from torch import nn


class DictProjected(nn.Module):
    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads = heads
        self.projections = {name: nn.Linear(dim, dim) for name in ("q", "k", "v")}
        self.out = nn.Linear(dim, dim)

    def forward(self, x):
        q, k, v = (self.projections[n].to(x.dtype)(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for n in "qkv")
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return DictProjected()


EXPECTED = {"kind": "unregistered-parameters", "severity": "error"}
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
