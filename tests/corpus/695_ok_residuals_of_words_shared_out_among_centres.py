"""A vector of locally aggregated descriptors: each place is shared out among centres, and residuals are summed over places.

Kind: correct
"""

import torch
import torch.nn.functional as F
from torch import nn


class SoftCentres(nn.Module):
    """Descriptors (batch, places, width) to one vector (batch, centres * width)."""

    def __init__(self, width=18, centres=4):
        super().__init__()
        self.assign = nn.Linear(width, centres)
        self.centres = nn.Parameter(torch.randn(centres, width))

    def forward(self, x):
        x = F.normalize(x, dim=-1)
        share = self.assign(x).softmax(-1)
        gap = x.unsqueeze(2) - self.centres
        summed = (share.unsqueeze(-1) * gap).sum(1)
        return F.normalize(F.normalize(summed, dim=-1).flatten(1), dim=-1)


def build() -> nn.Module:
    return SoftCentres()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "softmax-axis-head"}
CALL = {"attention": "pool", "layout": "BLD", "inputs": {"x": (2, 7, 18)}, "mask": None, "returns": "out"}
