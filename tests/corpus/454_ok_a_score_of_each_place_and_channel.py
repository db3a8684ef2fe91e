"""Every channel has its own map of scores, all of them made of two pooled maps, and the text says so.

Kind: correct
"""

import torch
from torch import nn


class WhereToLook(nn.Module):
    """Weighs the places of a map by their mean and their spread: a single score for each place and channel."""

    def __init__(self, size=14):
        super().__init__()
        self.look = nn.Conv2d(2, size, 3, padding=1)

    def forward(self, x):
        spread, mean = torch.std_mean(x, dim=1, keepdim=True)
        return self.look(torch.cat((spread, mean), dim=1)).sigmoid() * x


def build() -> nn.Module:
    return WhereToLook()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "spatial-gate-per-channel"}
CALL = {
    "attention": "spatial",
    "layout": "BCHW",
    "inputs": {"x": (2, 14, 6, 9)},
    "mask": None,
    "channels": 14,
    "returns": "out",
}
