"""Correct: VAN; a depthwise convolution stack multiplies the map, with no sigmoid and one factor per channel.

Kind: correct
"""

from torch import nn


class LKA(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.conv0 = nn.Conv2d(dim, dim, 5, padding=2, groups=dim)
        self.conv_spatial = nn.Conv2d(dim, dim, 7, stride=1, padding=9, groups=dim, dilation=3)
        self.conv1 = nn.Conv2d(dim, dim, 1)

    def forward(self, x):
        u = x.clone()
        attn = self.conv1(self.conv_spatial(self.conv0(x)))
        return u * attn


def build() -> nn.Module:
    return LKA()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "gate-unbounded"}
CALL = {
    "attention": "spatial",
    "layout": "BCHW",
    "inputs": {"x": (2, 8, 9, 8)},
    "mask": None,
    "channels": 8,
    "variant": "lka",
    "returns": "out",
}
