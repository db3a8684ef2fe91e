"""F.dropout(weights, p) is active by default, also in eval mode.

Kind: dropout-in-eval
"""

import torch
import torch.nn.functional as F
from torch import nn


class GraphTransformerLayer(nn.Module):
    """nodes: [B, N, D]; adj: bool [B, N, N], True = edge. Every node has an edge to itself."""

    def __init__(self, d=24, heads=3, dropout=0.2):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.qkv, self.o, self.norm = nn.Linear(d, 3 * d), nn.Linear(d, d), nn.LayerNorm(d)

    def forward(self, nodes, adj=None):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(nodes).chunk(3, -1))
        e = q @ k.transpose(-1, -2) / q.size(-1) ** 0.5
        if adj is not None:
            e = e.masked_fill(~adj.unsqueeze(1), -9e15)
        a = F.dropout(torch.softmax(e, -1), self.dropout)
        return self.norm(nodes + self.o((a @ v).transpose(1, 2).flatten(2)))


def build() -> nn.Module:
    return GraphTransformerLayer()


EXPECTED = {"kind": "dropout-in-eval", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"nodes": (2, 6, 24)},
    "dropout": 0.2,
    "mask": {"arg": "adj", "shape": (2, 6, 6), "on": "keys", "polarity": "keep", "dtype": "bool"},
    "embed_dim": 24,
    "heads": 3,
    "head_dim": 8,
    "returns": "out",
}
