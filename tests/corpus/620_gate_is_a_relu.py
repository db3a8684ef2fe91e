"""The excitation ends in ReLU: the factor has no upper bound.

Kind: gate-unbounded
"""

from torch import nn


class ChannelAttention(nn.Module):
    """Gate in [0, 1] per channel, from the global average."""

    def __init__(self, num_features=16, reduction=4):
        super().__init__()
        self.module = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(num_features, num_features // reduction, kernel_size=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(num_features // reduction, num_features, kernel_size=1),
            nn.ReLU(inplace=True),
        )

    def forward(self, x):
        return x * self.module(x)


def build() -> nn.Module:
    return ChannelAttention()


EXPECTED = {"kind": "gate-unbounded", "severity": "error"}
CALL = {
    "attention": "channel",
    "layout": "BCHW",
    "inputs": {"x": (2, 16, 5, 6)},
    "mask": None,
    "channels": 16,
    "variant": "se",
    "returns": "out",
}
