"""Double attention: descriptors gathered with a softmax over places, handed out with a softmax over descriptors.

Kind: correct
"""

import torch
from torch import nn


class DoubleAttention(nn.Module):
    def __init__(self, in_channels=16, c_m=8, c_n=6):
        super().__init__()
        self.convA, self.convB, self.convV = (
            nn.Conv2d(in_channels, c_m, 1),
            nn.Conv2d(in_channels, c_n, 1),
            nn.Conv2d(in_channels, c_n, 1),
        )
        self.conv_reconstruct = nn.Conv2d(c_m, in_channels, 1)

    def forward(self, x):
        b, _c, h, w = x.shape
        gather = torch.bmm(self.convA(x).flatten(2), self.convB(x).flatten(2).softmax(-1).transpose(1, 2))
        z = gather.matmul(self.convV(x).flatten(2).softmax(1))
        return self.conv_reconstruct(z.view(b, -1, h, w))


def build() -> nn.Module:
    return DoubleAttention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "self",
    "layout": "BCHW",
    "inputs": {"x": (2, 16, 5, 6)},
    "mask": None,
    "channels": 16,
    "returns": "out",
}
