"""Channel weights from the mean of each row, inside a residual bottleneck: every row gets weights of its own.

Kind: channel-no-squeeze
"""

import torch.nn.functional as F
from torch import nn


class ChannelWeights(nn.Module):
    """A convolution over neighbouring channels makes one weight for each channel of a map."""

    def __init__(self, kernel=3):
        super().__init__()
        self.mix = nn.Conv1d(1, 1, kernel, padding=kernel // 2, bias=False)

    def forward(self, maps):
        B, C, H, _ = maps.shape
        rows = maps.mean(3).transpose(1, 2).reshape(B * H, 1, C)
        weights = self.mix(rows).sigmoid().reshape(B, H, C).transpose(1, 2)
        return maps * weights[..., None]


class Bottleneck(nn.Module):
    def __init__(self, wide=16, narrow=8):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(wide, narrow, 1), nn.ReLU(), nn.Conv2d(narrow, wide, 3, padding=1))
        self.weigh = ChannelWeights()

    def forward(self, maps):
        return F.relu(maps + self.weigh(self.body(maps)))


def build() -> nn.Module:
    return Bottleneck()


EXPECTED = {"kind": "channel-no-squeeze", "severity": "error"}
CALL = {
    "attention": "channel",
    "layout": "BCHW",
    "inputs": {"maps": (2, 16, 5, 7)},
    "mask": None,
    "channels": 16,
    "returns": "out",
}
