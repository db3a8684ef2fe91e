"""Weights of padding are set to zero after the normalisation and never renormalised.

Kind: mask-after-softmax
"""

import torch
from torch import nn


class AttentivePooling(nn.Module):
    def __init__(self, dim=24):
        super().__init__()
        self.score = nn.Sequential(nn.Linear(dim, dim), nn.Tanh(), nn.Linear(dim, 1))

    def forward(self, x, lengths):
        """x: (batch, time, dim), lengths: (batch,)"""
        w = torch.softmax(self.score(x).squeeze(-1), dim=1)
        valid = torch.arange(x.size(1), device=x.device)[None] < lengths[:, None]
        w = w * valid.to(w)
        return torch.einsum("bt,btd->bd", w, x)


def build() -> nn.Module:
    return AttentivePooling()


EXPECTED = {"kind": "mask-after-softmax", "severity": "error"}
CALL = {
    "attention": "pool",
    "layout": "BLD",
    "inputs": {"x": (2, 6, 24)},
    "mask": {"arg": "lengths", "shape": (2,), "on": "keys", "polarity": "lengths", "dtype": "long"},
    "returns": "out",
}
