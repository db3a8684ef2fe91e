"""Correct: triplet attention; three gates on rotated maps, averaged.

Kind: correct
"""

import torch
import torch.nn as nn


class AttentionGate(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.bn = nn.Conv2d(2, 1, 7, padding=3, bias=False), nn.BatchNorm2d(1)

    def forward(self, x):
        pooled = torch.cat((torch.max(x, 1)[0].unsqueeze(1), torch.mean(x, 1).unsqueeze(1)), dim=1)
        return x * torch.sigmoid_(self.bn(self.conv(pooled)))


class TripletAttention(nn.Module):
    def __init__(self, no_spatial=False):
        super().__init__()
        self.cw, self.hc = AttentionGate(), AttentionGate()
        self.no_spatial = no_spatial
        if not no_spatial:
            self.hw = AttentionGate()

    def forward(self, x):
        x_out1 = self.cw(x.permute(0, 2, 1, 3).contiguous()).permute(0, 2, 1, 3).contiguous()
        x_out2 = self.hc(x.permute(0, 3, 2, 1).contiguous()).permute(0, 3, 2, 1).contiguous()
        if self.no_spatial:
            return 1 / 2 * (x_out1 + x_out2)
        return 1 / 3 * (self.hw(x) + x_out1 + x_out2)


def build() -> nn.Module:
    return TripletAttention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "spatial-gate-per-channel"}
CALL = {
    "attention": "spatial-gate",
    "layout": "BCHW",
    "inputs": {"x": (2, 6, 4, 5)},
    "mask": None,
    "channels": 6,
    "variant": "triplet",
    "returns": "out",
}
