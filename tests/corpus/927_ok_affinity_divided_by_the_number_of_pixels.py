"""The dot-product version of the non-local block: no softmax, the affinity is divided by the number of positions.

Kind: correct
"""

import torch
from torch import nn


class NonLocalDot(nn.Module):
    def __init__(self, in_channels=16):
        super().__init__()
        inter = in_channels // 2
        self.theta, self.phi, self.g = (nn.Conv2d(in_channels, inter, 1) for _ in range(3))
        self.W = nn.Sequential(nn.Conv2d(inter, in_channels, 1), nn.BatchNorm2d(in_channels))
        nn.init.constant_(self.W[1].weight, 0)
        nn.init.constant_(self.W[1].bias, 0)

    def forward(self, x):
        theta = self.theta(x).flatten(2).permute(0, 2, 1)
        f = torch.matmul(theta, self.phi(x).flatten(2))
        y = torch.matmul(f / f.size(-1), self.g(x).flatten(2).permute(0, 2, 1))
        return self.W(y.permute(0, 2, 1).reshape(x.size(0), -1, *x.shape[2:])) + x


def build() -> nn.Module:
    return NonLocalDot()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "self",
    "layout": "BCHW",
    "inputs": {"x": (2, 16, 5, 6)},
    "mask": None,
    "channels": 16,
    "returns": "out",
}
