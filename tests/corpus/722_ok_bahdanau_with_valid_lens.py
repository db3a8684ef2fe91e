"""Correct: d2l-style additive attention with valid lengths.

Kind: correct
"""

import torch
from torch import nn


def masked_softmax(X, valid_lens):
    if valid_lens is None:
        return nn.functional.softmax(X, dim=-1)
    shape = X.shape
    valid_lens = torch.repeat_interleave(valid_lens, shape[1]) if valid_lens.dim() == 1 else valid_lens.reshape(-1)
    X = X.reshape(-1, shape[-1])
    keep = torch.arange(shape[-1], device=X.device)[None, :] < valid_lens[:, None]
    return nn.functional.softmax(X.masked_fill(~keep, -1e6).reshape(shape), dim=-1)


class AdditiveAttention(nn.Module):
    """valid_lens: [batch] or [batch, queries], how many keys are real."""

    def __init__(self, num_hiddens=16, dropout=0.1):
        super().__init__()
        self.W_k = nn.Linear(num_hiddens, num_hiddens, bias=False)
        self.W_q = nn.Linear(num_hiddens, num_hiddens, bias=False)
        self.w_v = nn.Linear(num_hiddens, 1, bias=False)
        self.dropout = nn.Dropout(dropout)

    def forward(self, queries, keys, values, valid_lens=None):
        queries, keys = self.W_q(queries), self.W_k(keys)
        features = torch.tanh(queries.unsqueeze(2) + keys.unsqueeze(1))
        scores = self.w_v(features).squeeze(-1)
        self.attention_weights = masked_softmax(scores, valid_lens)
        return torch.bmm(self.dropout(self.attention_weights), values)


def build() -> nn.Module:
    return AdditiveAttention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "scale-missing"}
CALL = {
    "attention": "cross",
    "layout": "BLD",
    "inputs": {"queries": (2, 3, 16), "keys": (2, 6, 16), "values": (2, 6, 16)},
    "query_arg": "queries",
    "context_arg": "keys",
    "mask": None,
    "embed_dim": 16,
    "heads": 1,
    "head_dim": 16,
    "returns": "out",
    "dropout": 0.1,
}
