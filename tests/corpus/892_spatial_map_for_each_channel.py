"""Average and maximum over channels enter a convolution that gives one map per channel instead of one map.

Kind: spatial-gate-per-channel
"""

import torch
from torch import nn


class SpatialAttention(nn.Module):
    def __init__(self, channels=16, kernel_size=7):
        super().__init__()
        self.conv1 = nn.Conv2d(2, channels, kernel_size, padding=kernel_size // 2, bias=False)

    def forward(self, x):
        pooled = torch.cat([x.mean(1, keepdim=True), x.amax(1, keepdim=True)], dim=1)
        return x * torch.sigmoid(self.conv1(pooled))


def build() -> nn.Module:
    return SpatialAttention()


EXPECTED = {"kind": "spatial-gate-per-channel", "severity": "error"}
CALL = {
    "attention": "spatial",
    "layout": "BCHW",
    "inputs": {"x": (2, 16, 5, 6)},
    "mask": None,
    "channels": 16,
    "variant": "cbam-spatial",
    "returns": "out",
}
