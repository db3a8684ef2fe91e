"""The maximum is computed and the average is passed twice.

Kind: channel-branch-lost
"""

import torch
import torch.nn.functional as F
from torch import nn


class ChannelGate(nn.Module):
    """CBAM channel gate: shared MLP on the average and on the maximum."""

    def __init__(self, gate_channels=16, reduction=4):
        super().__init__()
        self.mlp = nn.Sequential(
            nn.Linear(gate_channels, gate_channels // reduction),
            nn.ReLU(),
            nn.Linear(gate_channels // reduction, gate_channels),
        )

    def forward(self, x):
        avg_pool = F.adaptive_avg_pool2d(x, 1).flatten(1)
        max_pool = F.adaptive_max_pool2d(x, 1).flatten(1)  # noqa: F841
        channel_att_sum = self.mlp(avg_pool) + self.mlp(avg_pool)
        return x * torch.sigmoid(channel_att_sum)[:, :, None, None]


def build() -> nn.Module:
    return ChannelGate()


EXPECTED = {"kind": "channel-branch-lost", "severity": "error"}
CALL = {
    "attention": "channel",
    "layout": "BCHW",
    "inputs": {"x": (2, 16, 5, 6)},
    "mask": None,
    "channels": 16,
    "variant": "cbam",
    "returns": "out",
}
