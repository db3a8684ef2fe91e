"""Bahdanau scores without the tanh: v(Wq + Uk) = v W q + v U k, and softmax removes the part of the query.

Kind: uniform-attention
"""

import torch
from torch import nn


class BahdanauAttention(nn.Module):
    def __init__(self, hidden_size=24):
        super().__init__()
        self.Wa = nn.Linear(hidden_size, hidden_size)
        self.Ua = nn.Linear(hidden_size, hidden_size)
        self.Va = nn.Linear(hidden_size, 1)

    def forward(self, query, keys):
        """query: [B, Tq, H], keys: [B, Tk, H] -> context [B, Tq, H], weights [B, Tq, Tk]."""
        scores = self.Va(self.Wa(query).unsqueeze(2) + self.Ua(keys).unsqueeze(1))
        weights = torch.softmax(scores.squeeze(-1), dim=-1)
        context = torch.bmm(weights, keys)
        return context, weights


def build() -> nn.Module:
    return BahdanauAttention()


EXPECTED = {"kind": "uniform-attention", "severity": "error"}
CALL = {
    "attention": "cross",
    "layout": "BLD",
    "inputs": {"query": (2, 4, 24), "keys": (2, 7, 24)},
    "query_arg": "query",
    "context_arg": "keys",
    "mask": None,
    "embed_dim": 24,
    "heads": 1,
    "head_dim": 24,
    "returns": "(out, weights)",
}
