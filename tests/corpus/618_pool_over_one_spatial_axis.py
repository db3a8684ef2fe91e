"""The squeeze averages over the width only, so that each row of the map has its own channel gate.

Kind: channel-no-squeeze
"""

import torch
from torch import nn


class SELayer(nn.Module):
    """Squeeze and excitation: one gate per channel."""

    def __init__(self, channel=16, reduction=4):
        super().__init__()
        self.fc1, self.fc2 = nn.Conv2d(channel, channel // reduction, 1), nn.Conv2d(channel // reduction, channel, 1)

    def forward(self, x):
        scale = x.mean(dim=-1, keepdim=True)
        scale = torch.sigmoid(self.fc2(torch.relu(self.fc1(scale))))
        return scale * x


def build() -> nn.Module:
    return SELayer()


EXPECTED = {"kind": "channel-no-squeeze", "severity": "error"}
CALL = {
    "attention": "channel",
    "layout": "BCHW",
    "inputs": {"x": (2, 16, 5, 6)},
    "mask": None,
    "channels": 16,
    "variant": "se",
    "returns": "out",
}
