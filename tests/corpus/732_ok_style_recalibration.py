"""Correct: SRM; mean and standard deviation of each channel, one weight pair per channel, batch norm, sigmoid.

Kind: correct
"""

import torch
from torch import nn


class SRMLayer(nn.Module):
    def __init__(self, channel=12):
        super().__init__()
        self.cfc = nn.Conv1d(channel, channel, kernel_size=2, bias=False, groups=channel)
        self.bn = nn.BatchNorm1d(channel)

    def forward(self, x):
        b, c, _, _ = x.size()
        u = torch.stack((x.view(b, c, -1).mean(-1), x.view(b, c, -1).std(-1)), -1)
        g = torch.sigmoid(self.bn(self.cfc(u)))
        return x * g.view(b, c, 1, 1).expand_as(x)


def build() -> nn.Module:
    return SRMLayer()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "batch-cross-talk"}
CALL = {
    "attention": "channel",
    "layout": "BCHW",
    "inputs": {"x": (3, 12, 4, 5)},
    "mask": None,
    "channels": 12,
    "variant": "srm",
    "returns": "out",
}
