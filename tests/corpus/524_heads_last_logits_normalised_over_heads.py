"""Logits [batch, to, from, heads]: softmax over the last axis is over the heads.

Kind: softmax-axis-head
"""

import torch
from torch import nn


class HeadsLastAttention(nn.Module):
    def __init__(self, dim=24, heads=3):
        super().__init__()
        self.heads, self.d = heads, dim // heads
        self.query_dense, self.key_dense, self.value_dense = (nn.Linear(dim, dim) for _ in range(3))
        self.output_dense = nn.Linear(dim, dim)

    def forward(self, inputs):
        b, t, _ = inputs.shape
        q = self.query_dense(inputs).view(b, t, self.heads, self.d)
        k = self.key_dense(inputs).view(b, t, self.heads, self.d)
        v = self.value_dense(inputs).view(b, t, self.heads, self.d)
        logits = torch.einsum("bthd,bshd->btsh", q, k) * self.d**-0.5
        coefficients = torch.softmax(logits, -1)
        return self.output_dense(torch.einsum("btsh,bshd->bthd", coefficients, v).reshape(b, t, -1))


def build() -> nn.Module:
    return HeadsLastAttention()


EXPECTED = {"kind": "softmax-axis-head", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"inputs": (2, 6, 24)},
    "mask": None,
    "embed_dim": 24,
    "heads": 3,
    "head_dim": 8,
    "returns": "out",
}
