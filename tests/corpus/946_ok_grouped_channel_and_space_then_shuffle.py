"""Shuffle attention: half of each group is gated by channel, half by place, then channels are shuffled.

Kind: correct
"""

import torch
from torch import nn


class ShuffleAttention(nn.Module):
    def __init__(self, channel=16, G=2):
        super().__init__()
        self.G = G
        c = channel // (2 * G)
        self.gn = nn.GroupNorm(c, c)
        self.cweight, self.cbias = nn.Parameter(torch.zeros(1, c, 1, 1)), nn.Parameter(torch.ones(1, c, 1, 1))
        self.sweight, self.sbias = nn.Parameter(torch.zeros(1, c, 1, 1)), nn.Parameter(torch.ones(1, c, 1, 1))

    def forward(self, x):
        b, _c, h, w = x.size()
        x_0, x_1 = x.reshape(b * self.G, -1, h, w).chunk(2, dim=1)
        x_channel = x_0 * torch.sigmoid(self.cweight * x_0.mean((2, 3), keepdim=True) + self.cbias)
        x_spatial = x_1 * torch.sigmoid(self.sweight * self.gn(x_1) + self.sbias)
        out = torch.cat([x_channel, x_spatial], dim=1).contiguous().view(b, -1, h, w)
        return out.view(b, 2, -1, h, w).permute(0, 2, 1, 3, 4).flatten(1, 2)


def build() -> nn.Module:
    return ShuffleAttention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "channel",
    "layout": "BCHW",
    "inputs": {"x": (2, 16, 5, 6)},
    "mask": None,
    "channels": 16,
    "returns": "out",
}
