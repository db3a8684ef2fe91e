"""Bidirectional attention flow: trilinear similarity, context to query, and the query-aware maximum over rows.

Kind: correct
"""

import torch
from torch import nn


class AttentionFlow(nn.Module):
    def __init__(self, hidden=16):
        super().__init__()
        self.w_c, self.w_q, self.w_cq = (nn.Linear(hidden, 1, bias=False) for _ in range(3))

    def forward(self, context, query):
        """(b, c, h), (b, q, h) -> (b, c, 4h)"""
        s = self.w_c(context) + self.w_q(query).transpose(1, 2) + (context * self.w_cq.weight) @ query.transpose(1, 2)
        c2q = s.softmax(dim=2) @ query
        b = s.amax(dim=2).softmax(dim=1).unsqueeze(1)
        q2c = (b @ context).expand_as(context)
        return torch.cat([context, c2q, context * c2q, context * q2c], dim=-1)


def build() -> nn.Module:
    return AttentionFlow()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "cross",
    "layout": "BLD",
    "inputs": {"context": (2, 7, 16), "query": (2, 5, 16)},
    "mask": None,
    "returns": "out",
}
