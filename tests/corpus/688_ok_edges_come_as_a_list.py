"""Attention of a graph whose edges come as a list of pairs.

Kind: correct
"""

import torch
import torch.nn.functional as F
from torch import nn


class EdgeAttention(nn.Module):
    """Every node reads the nodes from which an edge leads to it, and itself. nodes: (nodes, dim); edge_index: (2, edges), from and to."""

    def __init__(self, dim=12, heads=3, width=8, dropout=0.2):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.lift = nn.Linear(dim, heads * width, bias=False)
        self.give, self.take = (nn.Parameter(torch.randn(heads, width) * 0.3) for _ in range(2))

    def forward(self, nodes, edge_index):
        itself = torch.arange(len(nodes))
        edges = torch.cat([edge_index[:, edge_index[0] != edge_index[1]], torch.stack([itself, itself])], 1)
        z = self.lift(nodes).unflatten(-1, (self.heads, -1))
        score = F.leaky_relu((z * self.give).sum(-1)[edges[0]] + (z * self.take).sum(-1)[edges[1]], 0.2)
        most = torch.full_like(score[: len(nodes)], -torch.inf)
        most = most.scatter_reduce(0, edges[1][:, None].expand_as(score), score.detach(), "amax")
        e = (score - most[edges[1]]).exp()
        whole = torch.zeros_like(e[: len(nodes)]).index_add(0, edges[1], e)
        weights = F.dropout(e / whole[edges[1]], self.dropout, self.training)
        return torch.zeros_like(z).index_add(0, edges[1], weights[..., None] * z[edges[0]]).flatten(1)


def build() -> nn.Module:
    return EdgeAttention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "graph",
    "layout": "LD",
    "inputs": {"nodes": (7, 12)},
    "mask": None,
    "returns": "out",
}
