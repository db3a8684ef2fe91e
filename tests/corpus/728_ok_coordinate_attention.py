"""Correct: coordinate attention, H x 1 and 1 x W pools, one shared convolution, gates for rows and columns.

Kind: correct
"""

import torch
from torch import nn


class CoordAtt(nn.Module):
    def __init__(self, inp=16, reduction=4):
        super().__init__()
        mip = max(8, inp // reduction)
        self.conv1, self.bn1, self.act = nn.Conv2d(inp, mip, 1), nn.BatchNorm2d(mip), nn.Hardswish()
        self.conv_h, self.conv_w = nn.Conv2d(mip, inp, 1), nn.Conv2d(mip, inp, 1)

    def forward(self, x):
        _n, _c, h, w = x.size()
        x_h = x.mean(3, keepdim=True)
        x_w = x.mean(2, keepdim=True).permute(0, 1, 3, 2)
        y = self.act(self.bn1(self.conv1(torch.cat([x_h, x_w], dim=2))))
        x_h, x_w = torch.split(y, [h, w], dim=2)
        return x * self.conv_w(x_w.permute(0, 1, 3, 2)).sigmoid() * self.conv_h(x_h).sigmoid()


def build() -> nn.Module:
    return CoordAtt()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "coordinate-swap"}
CALL = {
    "attention": "coordinate",
    "layout": "BCHW",
    "inputs": {"x": (2, 16, 5, 7)},
    "mask": None,
    "channels": 16,
    "variant": "coordatt",
    "returns": "out",
}
