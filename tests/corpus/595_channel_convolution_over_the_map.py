"""ECA without the pool: the convolution over channels runs for every pixel, and the gate differs from pixel to pixel.

Kind: channel-no-squeeze
"""

import torch
from torch import nn


class ECALayer(nn.Module):
    """Efficient channel attention."""

    def __init__(self, k_size=3):
        super().__init__()
        self.conv = nn.Conv1d(1, 1, kernel_size=k_size, padding=(k_size - 1) // 2, bias=False)

    def forward(self, x):
        b, c, h, w = x.size()
        y = x.permute(0, 2, 3, 1).reshape(b * h * w, 1, c)
        y = self.conv(y).view(b, h, w, c).permute(0, 3, 1, 2)
        return x * torch.sigmoid(y).expand_as(x)


def build() -> nn.Module:
    return ECALayer()


EXPECTED = {"kind": "channel-no-squeeze", "severity": "error"}
CALL = {
    "attention": "channel",
    "layout": "BCHW",
    "inputs": {"x": (2, 16, 5, 6)},
    "mask": None,
    "channels": 16,
    "variant": "eca",
    "returns": "out",
}
