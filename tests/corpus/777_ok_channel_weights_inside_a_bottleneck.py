"""Correct: channel weights from the mean of the map, inside a residual bottleneck.

Kind: correct
"""

import torch.nn.functional as F
from torch import nn


class ChannelWeights(nn.Module):
    """A convolution over neighbouring channels makes one weight for each channel of a map."""

    def __init__(self, kernel=3):
        super().__init__()
        self.mix = nn.Conv1d(1, 1, kernel, padding=kernel // 2, bias=False)

    def forward(self, maps):
        weights = self.mix(maps.mean((2, 3))[:, None]).sigmoid()
        return maps * weights.transpose(1, 2)[..., None]


class Bottleneck(nn.Module):
    def __init__(self, wide=16, narrow=8):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(wide, narrow, 1), nn.ReLU(), nn.Conv2d(narrow, wide, 3, padding=1))
        self.weigh = ChannelWeights()

    def forward(self, maps):
        return F.relu(maps + self.weigh(self.body(maps)))


def build() -> nn.Module:
    return Bottleneck()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "channel-no-squeeze"}
CALL = {
    "attention": "channel",
    "layout": "BCHW",
    "inputs": {"maps": (2, 16, 5, 7)},
    "mask": None,
    "channels": 16,
    "returns": "out",
}
