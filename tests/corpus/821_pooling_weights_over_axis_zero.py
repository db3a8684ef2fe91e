"""Written for one sequence (softmax over axis 0), used on batches.

Kind: softmax-axis-batch
"""

import torch
from torch import nn


class SelfAttentionPooling(nn.Module):
    """x: (batch, time, features) -> (batch, features)"""

    def __init__(self, input_dim=24, hidden=16):
        super().__init__()
        self.W1, self.W2 = nn.Linear(input_dim, hidden), nn.Linear(hidden, 1)
        self.softmax = nn.Softmax(dim=0)

    def forward(self, x):
        att_w = self.softmax(self.W2(torch.tanh(self.W1(x))).squeeze(-1)).unsqueeze(-1)
        return torch.sum(x * att_w, dim=1)


def build() -> nn.Module:
    return SelfAttentionPooling()


EXPECTED = {"kind": "softmax-axis-batch", "severity": "error"}
CALL = {"attention": "pool", "layout": "BLD", "inputs": {"x": (3, 6, 24)}, "mask": None, "returns": "out"}
