"""softmax(dim=1) on [B, Lq, Lk] scores runs over the queries. Self attention with one head.

Kind: softmax-axis-query
"""

import torch
import torch.nn as nn


class SelfAttnLayer(nn.Module):
    def __init__(self, input_dim=16, attn_dim=16):
        super().__init__()
        self.query = nn.Linear(input_dim, attn_dim)
        self.key = nn.Linear(input_dim, attn_dim)
        self.value = nn.Linear(input_dim, attn_dim)
        self.softmax = nn.Softmax(dim=1)

    def forward(self, x):
        queries, keys, values = self.query(x), self.key(x), self.value(x)
        scores = torch.bmm(queries, keys.transpose(1, 2)) / (queries.shape[-1] ** 0.5)
        attention = self.softmax(scores)
        return torch.bmm(attention, values)


def build() -> nn.Module:
    return SelfAttnLayer()


EXPECTED = {"kind": "softmax-axis-query", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 7, 16)},
    "mask": None,
    "embed_dim": 16,
    "heads": 1,
    "head_dim": 16,
    "returns": "out",
    "probe": {"q": "query", "k": "key", "heads": 1},
}
