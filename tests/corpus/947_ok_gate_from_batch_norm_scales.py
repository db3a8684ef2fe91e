"""Normalisation-based attention: the share of a channel in the batch-norm scales weighs the gate; no pooling.

Kind: correct
"""

import torch
from torch import nn


class NAM(nn.Module):
    def __init__(self, channels=16):
        super().__init__()
        self.bn = nn.BatchNorm2d(channels, affine=True)

    def forward(self, x):
        y = self.bn(x)
        weight = self.bn.weight.abs() / self.bn.weight.abs().sum()
        return torch.sigmoid(y * weight[None, :, None, None]) * x


def build() -> nn.Module:
    return NAM()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "channel",
    "layout": "BCHW",
    "inputs": {"x": (2, 16, 5, 6)},
    "mask": None,
    "channels": 16,
    "returns": "out",
}
