"""The maximum branch of a channel gate pools what the mean branch has already pooled.

Kind: channel-branch-lost
"""

import torch
from torch import nn


class ChannelAttention(nn.Module):
    def __init__(self, in_planes=16, ratio=4):
        super().__init__()
        self.avg_pool, self.max_pool = nn.AdaptiveAvgPool2d(1), nn.AdaptiveMaxPool2d(1)
        self.fc = nn.Sequential(
            nn.Conv2d(in_planes, in_planes // ratio, 1, bias=False),
            nn.ReLU(),
            nn.Conv2d(in_planes // ratio, in_planes, 1, bias=False),
        )

    def forward(self, x):
        avg = self.avg_pool(x)
        avg_out = self.fc(avg)
        max_out = self.fc(self.max_pool(avg))
        return x * torch.sigmoid(avg_out + max_out)


def build() -> nn.Module:
    return ChannelAttention()


EXPECTED = {"kind": "channel-branch-lost", "severity": "error"}
CALL = {
    "attention": "channel",
    "layout": "BCHW",
    "inputs": {"x": (2, 16, 5, 6)},
    "mask": None,
    "channels": 16,
    "variant": "cbam-channel",
    "returns": "out",
}
