"""~ of the numbers 0 and 1 is -1 and -2, which are both true: every parcel is shown.

Kind: mask-dtype
"""

import torch
from torch import nn


class ParcelBlock(nn.Module):
    """Parcels of a delivery look at each other. `parcel_mask` is [batch, parcels], 1 = padding, 0 = parcel."""

    def __init__(self, width=28, heads=2):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.back = nn.Linear(width, width)

    def split(self, t):
        return t.reshape(*t.shape[:2], self.heads, -1).permute(0, 2, 1, 3)

    def forward(self, parcels, parcel_mask=None):
        y = self.norm(parcels)
        scores = self.split(self.query(y)) @ self.split(self.key(y)).mT
        scores = scores / (parcels.shape[-1] // self.heads) ** 0.5
        if parcel_mask is not None:
            scores = torch.where((~parcel_mask[:, None, None]).bool(), scores, -1e30)
        read = scores.softmax(-1) @ self.split(self.value(y))
        return parcels + self.back(read.permute(0, 2, 1, 3).flatten(2))


def build() -> nn.Module:
    return ParcelBlock()


EXPECTED = {"kind": "mask-dtype", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"parcels": (2, 6, 28)},
    "mask": {"arg": "parcel_mask", "shape": (2, 6), "on": "self", "polarity": "ignore", "dtype": "long"},
    "causal": False,
    "embed_dim": 28,
    "heads": 2,
    "head_dim": 14,
    "returns": "out",
}
