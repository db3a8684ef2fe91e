"""energy is [batch, length, 1] and softmax runs over the axis of size one.

Kind: softmax-axis-singleton
"""

import torch
from torch import nn


class AttentionPooling(nn.Module):
    def __init__(self, hidden=16):
        super().__init__()
        self.score = nn.Sequential(nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, 1))

    def forward(self, hidden_states):
        weights = torch.softmax(self.score(hidden_states), dim=-1)
        pooled = torch.bmm(weights.transpose(1, 2), hidden_states)
        return pooled.squeeze(1), weights.squeeze(-1)


def build() -> nn.Module:
    return AttentionPooling()


EXPECTED = {"kind": "softmax-axis-singleton", "severity": "error"}
CALL = {
    "attention": "pool",
    "layout": "BLD",
    "inputs": {"hidden_states": (2, 6, 16)},
    "mask": None,
    "embed_dim": 16,
    "heads": 1,
    "head_dim": 16,
    "returns": "(out, weights)",
}
