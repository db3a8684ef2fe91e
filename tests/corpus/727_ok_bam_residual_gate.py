"""Correct: BAM; 1 + sigmoid(channel * spatial) multiplies the map, so the factor lies between 1 and 2.

Kind: correct
"""

import torch
from torch import nn


class BAM(nn.Module):
    def __init__(self, channel=16, reduction=4, dilation=2):
        super().__init__()
        mid = channel // reduction
        self.ca = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(channel, mid, 1), nn.ReLU(), nn.Conv2d(mid, channel, 1)
        )
        self.sa = nn.Sequential(
            nn.Conv2d(channel, mid, 1),
            nn.ReLU(),
            nn.Conv2d(mid, mid, 3, padding=dilation, dilation=dilation),
            nn.ReLU(),
            nn.Conv2d(mid, 1, 1),
        )

    def forward(self, x):
        weight = torch.sigmoid(self.ca(x) * self.sa(x))
        return (1 + weight) * x


def build() -> nn.Module:
    return BAM()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "gate-unbounded"}
CALL = {
    "attention": "channel",
    "layout": "BCHW",
    "inputs": {"x": (2, 16, 6, 5)},
    "mask": None,
    "channels": 16,
    "variant": "bam",
    "returns": "out",
}
