"""Structured self-attentive embedding: r rows of weights over words, beside the mean of the words.

Kind: correct
"""

import torch
from torch import nn


class StructuredEmbedding(nn.Module):
    """x: (batch, words, dim), lengths: (batch,) at least 1 -> (batch, r + 1, dim)"""

    def __init__(self, dim=24, hidden=16, r=3):
        super().__init__()
        self.w1, self.w2 = nn.Linear(dim, hidden, bias=False), nn.Linear(hidden, r, bias=False)

    def forward(self, x, lengths=None):
        a = self.w2(torch.tanh(self.w1(x))).transpose(1, 2)
        keep = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)
        if lengths is not None:
            keep = torch.arange(x.shape[1], device=x.device) < lengths[:, None]
        a = a.masked_fill(~keep[:, None], float("-inf")).softmax(-1)
        mean = keep[:, None].to(x) / keep.sum(-1)[:, None, None].clamp(min=1)
        return torch.cat([a, mean], dim=1) @ x


def build() -> nn.Module:
    return StructuredEmbedding()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "pool",
    "layout": "BLD",
    "inputs": {"x": (2, 6, 24)},
    "mask": {"arg": "lengths", "shape": (2,), "on": "keys", "polarity": "lengths", "dtype": "long"},
    "returns": "out",
}
