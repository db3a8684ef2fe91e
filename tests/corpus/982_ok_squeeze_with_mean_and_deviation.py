"""Channel attention on mean and standard deviation, hard sigmoid, channels last inside.

Kind: correct
"""

import torch
from torch import nn


class StdSqueeze(nn.Module):
    """Channel attention with statistics of order one and two."""

    def __init__(self, channels=16, reduction=4):
        super().__init__()
        self.fc = nn.Sequential(
            nn.Linear(2 * channels, channels // reduction),
            nn.ReLU(),
            nn.Linear(channels // reduction, channels),
            nn.Hardsigmoid(),
        )

    def forward(self, x):
        y = x.permute(0, 2, 3, 1)
        stat = torch.cat([y.mean((1, 2)), y.std((1, 2))], dim=-1)
        return (y * self.fc(stat)[:, None, None, :]).permute(0, 3, 1, 2)


def build() -> nn.Module:
    return StdSqueeze()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "channel",
    "layout": "BCHW",
    "inputs": {"x": (2, 16, 5, 6)},
    "mask": None,
    "channels": 16,
    "variant": "se",
    "returns": "out",
}
