"""Correct: towns with a twin share one score, zero, before the cap. They are not taken out: a score is filled, and nothing is hidden.

Kind: correct
"""

import torch
from torch import nn


class TourStep(nn.Module):
    """One step of a tour: towns with a twin elsewhere all count alike.

    guides (batch, guides, width) ask, towns (batch, towns, width) answer; twins (batch, towns), optional.
    """

    def __init__(self, width=24, heads=4, cap=6.0):
        super().__init__()
        self.heads, self.cap = heads, cap
        self.q, self.kv, self.out = nn.Linear(width, width), nn.Linear(width, 2 * width), nn.Linear(width, width)

    def split(self, t):
        return t.unflatten(2, (self.heads, -1)).transpose(1, 2)

    def forward(self, guides, towns, twins=None):
        k, v = map(self.split, self.kv(towns).chunk(2, 2))
        scores = self.split(self.q(guides)) @ k.mT / k.shape[-1] ** 0.5
        if twins is not None:
            scores = scores.masked_fill(twins[:, None, None], 0.0)
        scores = self.cap * torch.tanh(scores / self.cap)
        read = scores.softmax(-1) @ v
        return self.out(read.transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return TourStep()


EXPECTED = {"kind": "correct", "severity": None}
CALL = {
    "attention": "cross",
    "layout": "BLD",
    "inputs": {"guides": (2, 3, 24), "towns": (2, 8, 24)},
    "query_arg": "guides",
    "context_arg": "towns",
    "mask": None,
    "causal": False,
    "embed_dim": 24,
    "heads": 4,
    "head_dim": 6,
    "returns": "out",
}
