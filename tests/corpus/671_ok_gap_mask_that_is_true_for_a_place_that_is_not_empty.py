"""Correct: the mask is true where a place is not empty, and the kernel reads it so; the word "empty" alone says nothing.

Kind: correct
"""

import torch.nn.functional as F
from torch import nn


class ShelfReader(nn.Module):
    """The books of a shelf read each other.

    books: (batch, places, width)
    gap_mask: (batch, places) bool, True for a place that is not empty
    """

    def __init__(self, width=30, heads=5):
        super().__init__()
        self.heads = heads
        self.mix = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width)

    def forward(self, books, gap_mask=None):
        q, k, v = (t.unflatten(2, (self.heads, -1)).transpose(1, 2) for t in self.mix(books).chunk(3, 2))
        seen = None if gap_mask is None else gap_mask[:, None, None]
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        return books + self.out(y.transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return ShelfReader()


EXPECTED = {"kind": "correct", "severity": None}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"books": (2, 6, 30)},
    "mask": {"arg": "gap_mask", "shape": (2, 6), "on": "self", "polarity": "keep", "dtype": "bool"},
    "causal": False,
    "embed_dim": 30,
    "heads": 5,
    "head_dim": 6,
    "returns": "out",
}
