"""d2l style: rows are masked by valid_lens, then the softmax runs over axis 1.

Kind: softmax-axis-query
"""

import math

import torch
from torch import nn


def masked_softmax(X, valid_lens):
    if valid_lens is None:
        return nn.functional.softmax(X, dim=1)
    maxlen = X.size(-1)
    mask = torch.arange(maxlen, device=X.device)[None, None, :] < valid_lens[:, None, None]
    X = torch.where(mask, X, torch.full_like(X, -1e6))
    return nn.functional.softmax(X, dim=1)


class DotProductAttention(nn.Module):
    """valid_lens: [batch], number of real keys."""

    def __init__(self, dropout=0.0):
        super().__init__()
        self.dropout = nn.Dropout(dropout)

    def forward(self, queries, keys, values, valid_lens=None):
        d = queries.shape[-1]
        scores = torch.bmm(queries, keys.transpose(1, 2)) / math.sqrt(d)
        self.attention_weights = masked_softmax(scores, valid_lens)
        return torch.bmm(self.dropout(self.attention_weights), values)


def build() -> nn.Module:
    return DotProductAttention()


EXPECTED = {"kind": "softmax-axis-query", "severity": "error"}
CALL = {
    "attention": "cross",
    "layout": "BLD",
    "inputs": {"queries": (2, 4, 8), "keys": (2, 6, 8), "values": (2, 6, 8)},
    "query_arg": "queries",
    "context_arg": "keys",
    "mask": None,
    "embed_dim": 8,
    "heads": 1,
    "head_dim": 8,
    "returns": "out",
}
