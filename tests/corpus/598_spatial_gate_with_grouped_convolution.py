"""The spatial gate is a depthwise convolution: one gate per channel instead of one for all of them.

Kind: spatial-gate-per-channel
"""

import torch
from torch import nn


class SpatialAttentionGate(nn.Module):
    """One map of weights between 0 and 1 for the places of the image, shared by the channels."""

    def __init__(self, channels=8, kernel_size=7):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, kernel_size, padding=kernel_size // 2, groups=channels)

    def forward(self, x):
        return x * torch.sigmoid(self.conv(x))


def build() -> nn.Module:
    return SpatialAttentionGate()


EXPECTED = {"kind": "spatial-gate-per-channel", "severity": "error"}
CALL = {
    "attention": "spatial-gate",
    "layout": "BCHW",
    "inputs": {"x": (2, 8, 6, 7)},
    "mask": None,
    "channels": 8,
    "variant": "cbam-spatial",
    "returns": "out",
}
