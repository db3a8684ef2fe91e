"""Rows and columns are concatenated as (h, w) and split as (w, h); on square maps the gates are simply exchanged.

Kind: coordinate-swap
"""

import torch
from torch import nn


class CoordinateGate(nn.Module):
    """Coordinate attention: each row and each column of the map gets its own gate."""

    def __init__(self, channels=12, reduction=2):
        super().__init__()
        mid = channels // reduction
        self.shared = nn.Sequential(nn.Conv1d(channels, mid, 1), nn.ReLU())
        self.f_h, self.f_w = nn.Conv1d(mid, channels, 1), nn.Conv1d(mid, channels, 1)

    def forward(self, x):
        h, w = x.shape[2:]
        f = self.shared(torch.cat((x.mean(3), x.mean(2)), dim=2))
        x_w, x_h = f.split([w, h], dim=2)
        g_h, g_w = torch.sigmoid(self.f_h(x_h)), torch.sigmoid(self.f_w(x_w))
        return x * g_h.unsqueeze(3) * g_w.unsqueeze(2)


def build() -> nn.Module:
    return CoordinateGate()


EXPECTED = {"kind": "coordinate-swap", "severity": "error"}
CALL = {
    "attention": "coordinate",
    "layout": "BCHW",
    "inputs": {"x": (1, 12, 5, 5)},
    "mask": None,
    "channels": 12,
    "variant": "coordatt",
    "returns": "out",
}
