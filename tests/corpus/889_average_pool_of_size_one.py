"""通道注意力: AvgPool2d(1) 不是 AdaptiveAvgPool2d(1), 没有压缩空间维.

Kind: channel-no-squeeze
"""

from torch import nn


class ChannelAttention(nn.Module):
    """通道注意力模块 (channel attention)"""

    def __init__(self, in_planes=16, ratio=4):
        super().__init__()
        self.avg_pool = nn.AvgPool2d(1)
        self.fc = nn.Sequential(
            nn.Conv2d(in_planes, in_planes // ratio, 1, bias=False),
            nn.ReLU(),
            nn.Conv2d(in_planes // ratio, in_planes, 1, bias=False),
        )
        self.sigmoid = nn.Sigmoid()

    def forward(self, x):
        return x * self.sigmoid(self.fc(self.avg_pool(x)))


def build() -> nn.Module:
    return ChannelAttention()


EXPECTED = {"kind": "channel-no-squeeze", "severity": "error"}
CALL = {
    "attention": "channel",
    "layout": "BCHW",
    "inputs": {"x": (2, 16, 5, 6)},
    "mask": None,
    "channels": 16,
    "variant": "se",
    "returns": "out",
}
