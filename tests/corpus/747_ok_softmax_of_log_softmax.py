"""Correct: log_softmax, then softmax, which gives the same weights as one softmax.

Kind: correct
"""

import torch
from torch import nn


class LogSpaceAttention(nn.Module):
    def __init__(self, dim=24):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(self, x):
        logp = torch.log_softmax(self.q(x) @ self.k(x).mT / x.shape[-1] ** 0.5, dim=-1)
        return torch.softmax(logp, dim=-1) @ self.v(x), logp


def build() -> nn.Module:
    return LogSpaceAttention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "double-softmax"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 6, 24)},
    "mask": None,
    "embed_dim": 24,
    "heads": 1,
    "head_dim": 24,
    "returns": "(out, log weights)",
}
