"""The last sigmoid is missing: the gate is a signed, unbounded factor.

Kind: gate-unbounded
"""

from torch import nn


class SqueezeExcite(nn.Module):
    def __init__(self, chs=16, rd_ratio=0.25):
        super().__init__()
        rd = int(chs * rd_ratio)
        self.conv_reduce, self.act1, self.conv_expand = nn.Conv2d(chs, rd, 1), nn.SiLU(), nn.Conv2d(rd, chs, 1)

    def forward(self, x):
        x_se = x.mean((2, 3), keepdim=True)
        x_se = self.conv_expand(self.act1(self.conv_reduce(x_se)))
        return x * x_se


def build() -> nn.Module:
    return SqueezeExcite()


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
