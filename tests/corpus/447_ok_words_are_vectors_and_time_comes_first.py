"""Vectors of words with time in front, and a table of places: numbers that are no ids would run as well, by accident.

Kind: correct
"""

import torch
from torch import nn


class WordsOverTime(nn.Module):
    """words: (time, items, size), the vectors of the words; each sees itself and what came before."""

    def __init__(self, size=24, heads=3, longest=50):
        super().__init__()
        self.places = nn.Embedding(longest, size)
        self.read = nn.MultiheadAttention(size, heads)
        self.norm, self.feed = nn.LayerNorm(size), nn.Linear(size, size)

    def forward(self, words):
        n = len(words)
        y = words + self.places.weight[:n, None]
        later = torch.full((n, n), float("-inf"), dtype=y.dtype, device=y.device).triu(1)
        y = self.norm(y)
        y = y + self.read(y, y, y, attn_mask=later, need_weights=False)[0]
        return y + torch.relu(self.feed(y))


def build() -> nn.Module:
    return WordsOverTime()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "batch-first"}
CALL = {
    "attention": "causal",
    "layout": "LBD",
    "inputs": {"words": (9, 3, 24)},
    "mask": None,
    "causal": True,
    "embed_dim": 24,
    "heads": 3,
    "head_dim": 8,
    "returns": "out",
}
