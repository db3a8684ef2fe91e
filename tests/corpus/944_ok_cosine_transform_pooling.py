"""Frequency channel attention: groups of channels are pooled with different cosine patterns, then squeeze-and-excite.

Kind: correct
"""

import math

import torch
import torch.nn.functional as F
from torch import nn


class FcaLayer(nn.Module):
    def __init__(self, channel=16, reduction=4, height=6, width=6, freqs=((0, 0), (0, 1), (1, 0), (1, 1))):
        super().__init__()
        n, basis = channel // len(freqs), torch.zeros(channel, height, width)
        for g, (u, v) in enumerate(freqs):
            ys = torch.cos(math.pi * u * (torch.arange(height) + 0.5) / height)
            xs = torch.cos(math.pi * v * (torch.arange(width) + 0.5) / width)
            basis[g * n : (g + 1) * n] = ys[:, None] * xs[None] / (height * width)
        self.register_buffer("basis", basis)
        self.fc = nn.Sequential(
            nn.Linear(channel, channel // reduction), nn.ReLU(), nn.Linear(channel // reduction, channel), nn.Sigmoid()
        )

    def forward(self, x):
        y = (F.adaptive_avg_pool2d(x, self.basis.shape[1:]) * self.basis).sum((2, 3))
        return x * self.fc(y)[:, :, None, None]


def build() -> nn.Module:
    return FcaLayer()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "channel",
    "layout": "BCHW",
    "inputs": {"x": (2, 16, 6, 6)},
    "mask": None,
    "channels": 16,
    "variant": "se",
    "returns": "out",
}
