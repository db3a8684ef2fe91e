"""A node without neighbours has a row of -inf.

Kind: fully-masked-nan
"""

import torch
import torch.nn.functional as F
from torch import nn


class GraphAttention(nn.Module):
    """h: (batch, nodes, features), adj: (batch, nodes, nodes) bool, True = edge."""

    def __init__(self, in_features=16, out_features=16):
        super().__init__()
        self.W = nn.Linear(in_features, out_features, bias=False)
        self.a_src, self.a_dst = nn.Linear(out_features, 1), nn.Linear(out_features, 1)

    def forward(self, h, adj):
        z = self.W(h)
        e = F.leaky_relu(self.a_src(z) + self.a_dst(z).transpose(1, 2), 0.2)
        e = e.masked_fill(~adj, float("-inf"))
        return F.elu(torch.softmax(e, dim=-1) @ z)


def build() -> nn.Module:
    return GraphAttention()


EXPECTED = {"kind": "fully-masked-nan", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"h": (2, 5, 16)},
    "mask": {"arg": "adj", "shape": (2, 5, 5), "on": "pairs", "polarity": "keep", "dtype": "bool"},
    "returns": "out",
}
