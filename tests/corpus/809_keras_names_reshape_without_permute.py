"""Reshape straight to (batch, heads, tokens, depth): no transposition follows.

Kind: head-split-order
"""

import torch
from torch import nn


class MultiHeadSelfAttention(nn.Module):
    def __init__(self, units=32, num_heads=4):
        super().__init__()
        self.units, self.num_heads, self.depth = units, num_heads, units // num_heads
        self.query_dense, self.key_dense, self.value_dense = (nn.Linear(units, units) for _ in range(3))
        self.combine_heads = nn.Linear(units, units)

    def separate_heads(self, x, batch_size):
        return torch.reshape(x, (batch_size, self.num_heads, -1, self.depth))

    def attention(self, query, key, value):
        score = torch.matmul(query, key.transpose(2, 3))
        weights = torch.softmax(score / self.depth**0.5, dim=-1)
        return torch.matmul(weights, value)

    def call(self, inputs):
        batch_size = inputs.shape[0]
        q = self.separate_heads(self.query_dense(inputs), batch_size)
        k = self.separate_heads(self.key_dense(inputs), batch_size)
        v = self.separate_heads(self.value_dense(inputs), batch_size)
        out = torch.reshape(self.attention(q, k, v), (batch_size, -1, self.units))
        return self.combine_heads(out)

    def forward(self, inputs):
        return self.call(inputs)


def build() -> nn.Module:
    return MultiHeadSelfAttention()


EXPECTED = {"kind": "head-split-order", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"inputs": (3, 6, 32)},
    "mask": None,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
