"""Correct: a pointer decoder that returns clipped logits over the inputs, not a mixture of values.

Kind: correct
"""

import torch
from torch import nn


class Pointer(nn.Module):
    """visited: bool [B, N], True = may not be chosen again."""

    def __init__(self, dim=16, clip=10.0):
        super().__init__()
        self.clip = clip
        self.query, self.ref = nn.Linear(dim, dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.v = nn.Parameter(torch.rand(dim))

    def forward(self, state, nodes, visited=None):
        """state: [B, M, dim], nodes: [B, N, dim] -> probabilities [B, M, N]."""
        u = torch.tanh(self.query(state)[:, :, None] + self.ref(nodes)[:, None]) @ self.v
        u = self.clip * torch.tanh(u)
        if visited is not None:
            u = u.masked_fill(visited[:, None], -1e9)
        return torch.softmax(u, dim=-1)


def build() -> nn.Module:
    return Pointer()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "softcap-after-mask"}
CALL = {
    "attention": "cross",
    "layout": "BLD",
    "inputs": {"state": (2, 3, 16), "nodes": (2, 6, 16)},
    "query_arg": "state",
    "context_arg": "nodes",
    "mask": {"arg": "visited", "shape": (2, 6), "on": "context", "polarity": "ignore", "dtype": "bool"},
    "embed_dim": 16,
    "heads": 1,
    "head_dim": 16,
    "returns": "weights",
}
