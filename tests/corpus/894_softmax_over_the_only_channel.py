"""The single spatial map goes through a softmax over channels: every entry is 1.

Kind: gate-constant
"""

import torch
from torch import nn


class SpatialGate(nn.Module):
    def __init__(self, channels=16):
        super().__init__()
        self.squeeze = nn.Sequential(
            nn.Conv2d(channels, channels // 4, 1), nn.ReLU(), nn.Conv2d(channels // 4, 1, 3, padding=1)
        )

    def forward(self, x):
        gate = torch.softmax(self.squeeze(x), dim=1)
        return gate * x


def build() -> nn.Module:
    return SpatialGate()


EXPECTED = {"kind": "gate-constant", "severity": "error"}
CALL = {
    "attention": "spatial",
    "layout": "BCHW",
    "inputs": {"x": (2, 16, 5, 6)},
    "mask": None,
    "channels": 16,
    "variant": "spatial",
    "returns": "out",
}
