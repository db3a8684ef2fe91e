"""Gather-excite: local averages per channel, two 1x1 convolutions, blown up again: a gate per channel and place by design.

Kind: correct
"""

import torch.nn.functional as F
from torch import nn


class GatherExcite(nn.Module):
    def __init__(self, channels=16, extent=2, rd_ratio=0.25):
        super().__init__()
        self.extent = extent
        self.mlp = nn.Sequential(
            nn.Conv2d(channels, int(channels * rd_ratio), 1),
            nn.ReLU(),
            nn.Conv2d(int(channels * rd_ratio), channels, 1),
        )

    def forward(self, x):
        ge = F.avg_pool2d(
            x, kernel_size=2 * self.extent - 1, stride=self.extent, padding=self.extent - 1, count_include_pad=False
        )
        return x * F.interpolate(self.mlp(ge), size=x.shape[-2:]).sigmoid()


def build() -> nn.Module:
    return GatherExcite()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "channel",
    "layout": "BCHW",
    "inputs": {"x": (2, 16, 6, 8)},
    "mask": None,
    "channels": 16,
    "returns": "out",
}
