"""Correct: GCNet; softmax over all pixels pools a context, a bottleneck turns it into an addition per channel.

Kind: correct
"""

import torch
from torch import nn


class ContextBlock(nn.Module):
    def __init__(self, inplanes=16, ratio=0.25):
        super().__init__()
        planes = int(inplanes * ratio)
        self.conv_mask = nn.Conv2d(inplanes, 1, kernel_size=1)
        self.channel_add_conv = nn.Sequential(
            nn.Conv2d(inplanes, planes, 1),
            nn.LayerNorm([planes, 1, 1]),
            nn.ReLU(inplace=True),
            nn.Conv2d(planes, inplanes, 1),
        )

    def spatial_pool(self, x):
        batch, channel, height, width = x.size()
        input_x = x.view(batch, 1, channel, height * width)
        context_mask = self.conv_mask(x).view(batch, 1, height * width).softmax(2).unsqueeze(-1)
        return torch.matmul(input_x, context_mask).view(batch, channel, 1, 1)

    def forward(self, x):
        return x + self.channel_add_conv(self.spatial_pool(x))


def build() -> nn.Module:
    return ContextBlock()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "uniform-attention"}
CALL = {
    "attention": "spatial",
    "layout": "BCHW",
    "inputs": {"x": (2, 16, 4, 5)},
    "mask": None,
    "channels": 16,
    "variant": "gc",
    "returns": "out",
}
