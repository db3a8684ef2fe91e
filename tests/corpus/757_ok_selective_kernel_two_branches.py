"""Correct: SKNet; two convolution branches, softmax over the branches per channel.

Kind: correct
"""

import torch
from torch import nn


class SKConv(nn.Module):
    def __init__(self, features=16, r=4):
        super().__init__()
        self.convs = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(features, features, 3, padding=1 + i, dilation=1 + i, bias=False),
                nn.BatchNorm2d(features),
                nn.ReLU(),
            )
            for i in range(2)
        )
        self.fc, self.fcs = (
            nn.Linear(features, features // r),
            nn.ModuleList(nn.Linear(features // r, features) for _ in range(2)),
        )

    def forward(self, x):
        feas = torch.stack([conv(x) for conv in self.convs], dim=1)
        fea_z = self.fc(feas.sum(1).mean(-1).mean(-1))
        weights = torch.stack([fc(fea_z) for fc in self.fcs], dim=1).softmax(dim=1)
        return (feas * weights[..., None, None]).sum(dim=1)


def build() -> nn.Module:
    return SKConv()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "softmax-axis"}
CALL = {
    "attention": "channel",
    "layout": "BCHW",
    "inputs": {"x": (2, 16, 6, 5)},
    "mask": None,
    "channels": 16,
    "variant": "triplet",
    "returns": "out",
}
