"""Ids of words are rounded to whole numbers before the table is read, so floats would run as well: they are ids all the same.

Kind: correct
"""

import torch
import torch.nn.functional as F
from torch import nn


class TolerantReader(nn.Module):
    """words (items, n): ids, of any dtype. Returns vectors (items, n, size)."""

    def __init__(self, words=60, size=16, heads=2):
        super().__init__()
        self.heads = heads
        self.table = nn.Embedding(words, size)
        self.enter, self.leave = nn.Linear(size, 3 * size), nn.Linear(size, size)

    def forward(self, words):
        x = self.table(torch.round(words.double()).long())
        q, k, v = self.enter(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        return x + self.leave(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return TolerantReader()


EXPECTED = {"kind": "correct", "severity": None}
CALL = {
    "attention": "self",
    "layout": "BL",
    "inputs": {"words": (2, 7)},
    "mask": None,
    "causal": False,
    "embed_dim": 16,
    "heads": 2,
    "head_dim": 8,
    "returns": "out",
}
