"""A map of one channel is normalised over the places.

Kind: correct
"""

import torch
from torch import nn


class Doors(nn.Module):
    """coarse, fine: (items, places, dim); a map of one number per place says how much of the fine stream goes on."""

    def __init__(self, dim=22):
        super().__init__()
        self.of_coarse, self.of_fine = nn.Linear(dim, dim // 2), nn.Linear(dim, dim // 2, bias=False)
        self.map = nn.Linear(dim // 2, 1)

    def forward(self, coarse, fine):
        score = self.map((self.of_coarse(coarse) + self.of_fine(fine)).relu())
        return fine * (score.softmax(1) * score.shape[1])


class TwoScales(nn.Module):
    """x: (items, channels, rows, columns) with even sides -> the same places."""

    def __init__(self, channels=3, dim=22, classes=5):
        super().__init__()
        self.fine, self.coarse = nn.Conv2d(channels, dim, 3, padding=1), nn.Conv2d(channels, dim, 2, 2)
        self.doors, self.join = Doors(dim), nn.Linear(2 * dim, classes)

    def forward(self, x):
        fine = self.fine(x)
        coarse = nn.functional.interpolate(self.coarse(x).relu(), size=fine.shape[-2:])
        fine, coarse = fine.flatten(2).mT, coarse.flatten(2).mT
        y = self.join(torch.cat((self.doors(coarse, fine), coarse), -1))
        return y.mT.unflatten(-1, x.shape[-2:])


def build() -> nn.Module:
    return TwoScales()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "softmax-axis-singleton"}
CALL = {
    "attention": "spatial gate",
    "layout": "BCHW",
    "inputs": {"x": (2, 3, 6, 8)},
    "mask": None,
    "embed_dim": None,
    "heads": 1,
    "head_dim": None,
    "returns": "out",
}
