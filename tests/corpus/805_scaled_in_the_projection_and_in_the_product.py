"""One function scales the queries, the next one scales the scores.

Kind: scale-twice
"""

import torch
from torch import nn


class CrossAttention(nn.Module):
    def __init__(self, query_dim=32, context_dim=24, heads=4, dim_head=8):
        super().__init__()
        inner = heads * dim_head
        self.heads, self.scale = heads, dim_head**-0.5
        self.to_q = nn.Linear(query_dim, inner, bias=False)
        self.to_kv = nn.Linear(context_dim, inner * 2, bias=False)
        self.to_out = nn.Sequential(nn.Linear(inner, query_dim), nn.Dropout(0.0))

    def queries(self, x):
        return self.to_q(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) * self.scale

    def forward(self, x, context):
        q = self.queries(x)
        k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.to_kv(context).chunk(2, -1))
        sim = torch.einsum("b h i d, b h j d -> b h i j", q, k) * self.scale
        out = torch.einsum("b h i j, b h j d -> b h i d", sim.softmax(dim=-1), v)
        return self.to_out(out.transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return CrossAttention()


EXPECTED = {"kind": "scale-twice", "severity": "error"}
CALL = {
    "attention": "cross",
    "layout": "BLD",
    "inputs": {"x": (2, 5, 32), "context": (2, 7, 24)},
    "mask": None,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
