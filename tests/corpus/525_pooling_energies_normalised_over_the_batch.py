"""A sentence pooler [batch, length] -> softmax over axis 0.

Kind: softmax-axis-batch
"""

import torch
from torch import nn


class WordAttention(nn.Module):
    """Hierarchical attention: words [batch, length, features] -> sentence [batch, features]."""

    def __init__(self, features=16, attention_size=12):
        super().__init__()
        self.fc = nn.Linear(features, attention_size)
        self.context = nn.Parameter(torch.randn(attention_size))

    def forward(self, words):
        u = torch.tanh(self.fc(words))
        energy = u @ self.context
        alpha = torch.nn.functional.softmax(energy, 0)
        return (alpha.unsqueeze(2) * words).sum(1)


def build() -> nn.Module:
    return WordAttention()


EXPECTED = {"kind": "softmax-axis-batch", "severity": "error"}
CALL = {
    "attention": "pool",
    "layout": "BLD",
    "inputs": {"words": (3, 6, 16)},
    "mask": None,
    "embed_dim": 16,
    "heads": 1,
    "head_dim": 16,
    "returns": "out",
}
