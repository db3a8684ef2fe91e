"""点积注意力: softmax 应在键的维度 (the last axis), 这里写成了 dim=1.

Kind: softmax-axis-query
"""

import torch
from torch import nn


class DotProductAttention(nn.Module):
    """缩放点积注意力"""

    def __init__(self, d_model=24, dropout=0.0):
        super().__init__()
        self.W_q, self.W_k, self.W_v = (nn.Linear(d_model, d_model) for _ in range(3))
        self.softmax = nn.Softmax(dim=1)
        self.dropout = nn.Dropout(dropout)

    def forward(self, query, key, value):
        # query: (batch, 查询数, d), key/value: (batch, 键值对数, d)
        q, k, v = self.W_q(query), self.W_k(key), self.W_v(value)
        scores = torch.bmm(q, k.transpose(1, 2)) / q.shape[-1] ** 0.5
        weights = self.softmax(scores)
        return torch.bmm(self.dropout(weights), v), weights


def build() -> nn.Module:
    return DotProductAttention()


EXPECTED = {"kind": "softmax-axis-query", "severity": "error"}
CALL = {
    "attention": "cross",
    "layout": "BLD",
    "inputs": {"query": (2, 4, 24), "key": (2, 6, 24), "value": "key"},
    "mask": None,
    "embed_dim": 24,
    "returns": "(out, weights)",
}
