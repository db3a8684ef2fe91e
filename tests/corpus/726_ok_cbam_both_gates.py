"""Correct: CBAM, channel gate (mean and maximum through one MLP), then spatial gate (7 x 7).

Kind: correct
"""

import torch
from torch import nn


class ChannelGate(nn.Module):
    def __init__(self, channels, ratio):
        super().__init__()
        self.mlp = nn.Sequential(
            nn.Linear(channels, channels // ratio), nn.ReLU(), nn.Linear(channels // ratio, channels)
        )

    def forward(self, x):
        att = self.mlp(x.mean((2, 3))) + self.mlp(x.amax((2, 3)))
        return x * torch.sigmoid(att)[:, :, None, None]


class SpatialGate(nn.Module):
    def __init__(self, kernel=7):
        super().__init__()
        self.spatial = nn.Conv2d(2, 1, kernel, padding=kernel // 2, bias=False)

    def forward(self, x):
        both = torch.cat((x.max(1, keepdim=True)[0], x.mean(1, keepdim=True)), dim=1)
        return x * self.spatial(both).sigmoid()


class CBAM(nn.Module):
    def __init__(self, gate_channels=16, reduction_ratio=4):
        super().__init__()
        self.channel, self.space = ChannelGate(gate_channels, reduction_ratio), SpatialGate()

    def forward(self, x):
        return self.space(self.channel(x))


def build() -> nn.Module:
    return CBAM()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "channel-branch-lost"}
CALL = {
    "attention": "channel",
    "layout": "BCHW",
    "inputs": {"x": (2, 16, 5, 6)},
    "mask": None,
    "channels": 16,
    "variant": "cbam",
    "returns": "out",
}
