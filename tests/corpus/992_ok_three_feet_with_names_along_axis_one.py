"""Time first: each of three feet follows its own track, and has a vector of its own that would broadcast over one foot as well.

Kind: correct
"""

import torch
from torch import nn


class Tripod(nn.Module):
    """(time, feet, 3) -> (time, feet, 3): where each foot will be, from all places where it was."""

    def __init__(self, feet=3, model=24, heads=4):
        super().__init__()
        self.feet = feet
        self.place, self.push = nn.Linear(3, model), nn.Linear(model, 3)
        self.foot = nn.Parameter(torch.randn(1, feet, model))
        self.norm, self.attend = nn.LayerNorm(model), nn.MultiheadAttention(model, heads)

    def forward(self, tracks):
        h = self.place(tracks) + self.foot
        y = self.norm(h)
        return tracks + self.push(h + self.attend(y, y, y, need_weights=False)[0])


def build() -> nn.Module:
    return Tripod()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "batch-first"}
CALL = {
    "attention": "self",
    "layout": "LBD",
    "inputs": {"tracks": (7, 3, 3)},
    "mask": None,
    "embed_dim": 24,
    "heads": 4,
    "head_dim": 6,
    "returns": "out",
}
