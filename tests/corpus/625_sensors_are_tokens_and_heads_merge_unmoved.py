"""Whole series are tokens; (batch, heads, sensors, size) is viewed as (batch, sensors, heads * size).

Kind: head-merge-order
"""

import torch.nn.functional as F
from torch import nn


class SensorForecast(nn.Module):
    """The past of each sensor, (batch, past, sensors), to its future, (batch, horizon, sensors)."""

    def __init__(self, past=12, horizon=5, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.lift = nn.Linear(past, width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.future = nn.Linear(width, horizon)

    def forward(self, series):
        tokens = self.lift(series.transpose(1, 2))
        q, k, v = self.qkv(tokens).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v)
        tokens = self.norm(tokens + self.out(y.reshape(tokens.shape)))
        return self.future(tokens).transpose(1, 2)


def build() -> nn.Module:
    return SensorForecast()


EXPECTED = {"kind": "head-merge-order", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BDL",
    "inputs": {"series": (2, 12, 9)},
    "mask": None,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
