"""Correct: concurrent spatial and channel gates (scSE), the larger of the two kept, inside a residual convolution block.

Kind: correct
"""

import torch
from torch import nn


class SCSEBlock(nn.Module):
    def __init__(self, channel=16, reduction=4):
        super().__init__()
        self.avg_pool = nn.AdaptiveAvgPool2d(1)
        self.channel_excitation = nn.Sequential(
            nn.Linear(channel, channel // reduction),
            nn.ReLU(inplace=True),
            nn.Linear(channel // reduction, channel),
            nn.Sigmoid(),
        )
        self.spatial_se = nn.Conv2d(channel, 1, kernel_size=1, bias=False)

    def forward(self, x):
        bahs, chs, _, _ = x.size()
        chn_se = self.avg_pool(x).view(bahs, chs)
        chn_se = self.channel_excitation(chn_se).view(bahs, chs, 1, 1)
        spa_se = torch.sigmoid(self.spatial_se(x))
        return torch.max(torch.mul(x, chn_se), torch.mul(x, spa_se))


def build() -> nn.Module:
    return SCSEBlock()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "spatial-gate-per-channel"}
CALL = {
    "attention": "channel",
    "layout": "BCHW",
    "inputs": {"x": (2, 16, 5, 6)},
    "mask": None,
    "channels": 16,
    "variant": "scse",
    "returns": "out",
}
