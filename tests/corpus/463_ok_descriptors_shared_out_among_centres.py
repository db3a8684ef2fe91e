"""Each descriptor is shared out among learned centres (softmax over the centres), which sum what they get, and are normalised.

Kind: correct
"""

import torch
import torch.nn.functional as F
from torch import nn


class CentrePool(nn.Module):
    def __init__(self, dim=18, centres=5, out=11):
        super().__init__()
        self.assign = nn.Linear(dim, centres)
        self.centres = nn.Parameter(torch.randn(centres, dim))
        self.reduce = nn.Linear(centres * dim, out)

    def forward(self, x):
        share = self.assign(x).softmax(-1)
        held = torch.einsum("bnk,bnd->bkd", share, x) - share.sum(1)[..., None] * self.centres
        return self.reduce(F.normalize(F.normalize(held, dim=-1).flatten(1), dim=-1))


def build() -> nn.Module:
    return CentrePool()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "weights-transposed"}
CALL = {"attention": "pool", "layout": "BLD", "inputs": {"x": (2, 8, 18)}, "mask": None, "returns": "out"}
