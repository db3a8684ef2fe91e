"""Attention along time, then among places, of frames whose size is fixed by learned positions.

Kind: correct
"""

import torch
from torch import nn


class TimeThenPlace(nn.Module):
    """Frames (batch, time, rows, columns, dim) of 4 x 6 x 6: attention along time, then among the places of a frame."""

    def __init__(self, dim=24, heads=3):
        super().__init__()
        self.when, self.row, self.column = (nn.Parameter(torch.randn(*s, dim) * 0.1) for s in ((4, 1, 1), (6, 1), (6,)))
        self.time, self.place = (nn.MultiheadAttention(dim, heads, batch_first=True) for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(2))

    def forward(self, clip):
        x = clip + self.when + self.row + self.column
        b, t, h, w, c = x.shape
        y = self.norms[0](x).permute(0, 2, 3, 1, 4).reshape(b * h * w, t, c)
        y = self.time(y, y, y, need_weights=False)[0]
        x = x + y.reshape(b, h, w, t, c).permute(0, 3, 1, 2, 4)
        y = self.norms[1](x).reshape(b * t, h * w, c)
        return x + self.place(y, y, y, need_weights=False)[0].reshape(b, t, h, w, c)


def build() -> nn.Module:
    return TimeThenPlace()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "self",
    "layout": "BTHWD",
    "inputs": {"clip": (2, 4, 6, 6, 24)},
    "mask": None,
    "returns": "out",
}
