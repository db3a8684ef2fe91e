"""Time comes first and attention runs along it; axis 1 holds the eleven joints of a body, each with an embedding of its own.

Kind: correct
"""

import torch
from torch import nn


class JointTracks(nn.Module):
    """(time, joints, 3) -> (time, joints, 3): each joint looks at its own past and future."""

    def __init__(self, joints=11, model=24, heads=4):
        super().__init__()
        self.enter, self.leave = nn.Linear(3, model), nn.Linear(model, 3)
        self.joints, self.which = joints, nn.Parameter(torch.randn(1, joints, model))
        self.along_time = nn.TransformerEncoderLayer(model, heads, 2 * model, dropout=0.0, activation="gelu")

    def forward(self, tracks):
        return tracks + self.leave(self.along_time(self.enter(tracks) + self.which))


def build() -> nn.Module:
    return JointTracks()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "batch-first"}
CALL = {
    "attention": "self",
    "layout": "LBD",
    "inputs": {"tracks": (6, 11, 3)},
    "mask": None,
    "embed_dim": 24,
    "heads": 4,
    "head_dim": 6,
    "returns": "out",
}
