"""Selective kernel with a single branch left: softmax over the branches is always 1.

Kind: gate-constant
"""

import torch
from torch import nn


class SelectiveGate(nn.Module):
    def __init__(self, channels=16, branches=1, reduction=4):
        super().__init__()
        self.branches = branches
        self.fc = nn.Sequential(
            nn.Linear(channels, channels // reduction), nn.ReLU(), nn.Linear(channels // reduction, channels * branches)
        )

    def forward(self, x):
        b, c = x.shape[:2]
        z = self.fc(x.mean((2, 3))).view(b, self.branches, c)
        weights = torch.softmax(z, dim=1)
        return (x.unsqueeze(1) * weights[..., None, None]).sum(1)


def build() -> nn.Module:
    return SelectiveGate()


EXPECTED = {"kind": "gate-constant", "severity": "error"}
CALL = {
    "attention": "channel",
    "layout": "BCHW",
    "inputs": {"x": (2, 16, 4, 5)},
    "mask": None,
    "channels": 16,
    "variant": "sk",
    "returns": "out",
}
