"""Polarised self attention, both branches in a row: softmax over pixels pools channels, softmax over channels pools space.

Kind: correct
"""

import torch
from torch import nn


class SequentialPolarizedSelfAttention(nn.Module):
    def __init__(self, channel=16):
        super().__init__()
        c = channel // 2
        self.ch_wv, self.ch_wq, self.ch_wz, self.ln = (
            nn.Conv2d(channel, c, 1),
            nn.Conv2d(channel, 1, 1),
            nn.Conv2d(c, channel, 1),
            nn.LayerNorm(channel),
        )
        self.sp_wv, self.sp_wq = nn.Conv2d(channel, c, 1), nn.Conv2d(channel, c, 1)

    def forward(self, x):
        b, c, h, w = x.shape
        q = self.ch_wq(x).reshape(b, -1, 1).softmax(1)
        z = torch.matmul(self.ch_wv(x).reshape(b, c // 2, -1), q).unsqueeze(-1)
        x = x * self.ln(self.ch_wz(z).reshape(b, c)).sigmoid().reshape(b, c, 1, 1)
        q = self.sp_wq(x).mean((2, 3)).softmax(-1).reshape(b, 1, c // 2)
        z = torch.matmul(q, self.sp_wv(x).reshape(b, c // 2, -1))
        return x * z.reshape(b, 1, h, w).sigmoid()


def build() -> nn.Module:
    return SequentialPolarizedSelfAttention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "channel",
    "layout": "BCHW",
    "inputs": {"x": (2, 16, 5, 6)},
    "mask": None,
    "channels": 16,
    "returns": "out",
}
