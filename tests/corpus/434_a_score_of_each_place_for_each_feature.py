"""The convolution has as many outputs as the map has features.

Kind: spatial-gate-per-channel
"""

import torch
from torch import nn


class WhereToLook(nn.Module):
    """Weighs the places of a map by their mean and their spread: one score for each place."""

    def __init__(self, size=14):
        super().__init__()
        self.look = nn.Conv2d(2, size, 3, padding=1)

    def forward(self, x):
        spread, mean = torch.std_mean(x, dim=1, keepdim=True)
        return self.look(torch.cat((spread, mean), dim=1)).sigmoid() * x


def build() -> nn.Module:
    return WhereToLook()


EXPECTED = {"kind": "spatial-gate-per-channel", "severity": "error"}
CALL = {
    "attention": "spatial",
    "layout": "BCHW",
    "inputs": {"x": (2, 14, 6, 9)},
    "mask": None,
    "channels": 14,
    "returns": "out",
}
