"""Residual attention: the trunk is multiplied by 1 plus a sigmoid mask, so gates lie between 1 and 2.

Kind: correct
"""

import torch
import torch.nn.functional as F
from torch import nn


class ResidualAttention(nn.Module):
    def __init__(self, channels=16):
        super().__init__()
        self.trunk = nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1), nn.ReLU())
        self.mask = nn.Sequential(
            nn.MaxPool2d(2), nn.Conv2d(channels, channels, 3, padding=1), nn.ReLU(), nn.Conv2d(channels, channels, 1)
        )

    def forward(self, x):
        m = F.interpolate(self.mask(x), size=x.shape[-2:], mode="bilinear", align_corners=False)
        return (1 + torch.sigmoid(m)) * self.trunk(x)


def build() -> nn.Module:
    return ResidualAttention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "spatial",
    "layout": "BCHW",
    "inputs": {"x": (2, 16, 6, 8)},
    "mask": None,
    "channels": 16,
    "returns": "out",
}
