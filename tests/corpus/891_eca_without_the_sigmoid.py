"""The 1-D convolution over channels multiplies the map without a sigmoid.

Kind: gate-unbounded
"""

from torch import nn


class ECALayer(nn.Module):
    def __init__(self, channel=16, k_size=3):
        super().__init__()
        self.avg_pool = nn.AdaptiveAvgPool2d(1)
        self.conv = nn.Conv1d(1, 1, kernel_size=k_size, padding=(k_size - 1) // 2, bias=False)
        self.sigmoid = nn.Sigmoid()

    def forward(self, x):
        y = self.avg_pool(x)
        y = self.conv(y.squeeze(-1).transpose(-1, -2)).transpose(-1, -2).unsqueeze(-1)
        return x * y.expand_as(x)


def build() -> nn.Module:
    return ECALayer()


EXPECTED = {"kind": "gate-unbounded", "severity": "error"}
CALL = {
    "attention": "channel",
    "layout": "BCHW",
    "inputs": {"x": (2, 16, 5, 6)},
    "mask": None,
    "channels": 16,
    "variant": "eca",
    "returns": "out",
}
