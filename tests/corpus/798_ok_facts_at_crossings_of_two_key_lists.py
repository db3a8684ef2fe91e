"""Product keys: half a query against one list of keys, the other half against another; the best crossings give learned values.

Kind: correct
"""

import torch
from torch import nn


class CrossingMemory(nn.Module):
    """(batch, n, width) -> the same, token by token. A crossing (i, j) of two lists of `side` keys holds value i * side + j."""

    def __init__(self, width=32, heads=2, half=6, side=7, best=4):
        super().__init__()
        self.heads, self.side, self.best = heads, side, best
        self.ask = nn.Linear(width, heads * 2 * half)
        self.lists = nn.Parameter(torch.randn(heads, 2, side, half) * half**-0.5)
        self.facts = nn.Embedding(side * side, width)

    def forward(self, x):
        halves = self.ask(x).unflatten(-1, (self.heads, 2, -1))
        score, at = torch.einsum("bthpc,hpsc->bthps", halves, self.lists).topk(self.best, dim=-1)
        total = (score[..., 0, :, None] + score[..., 1, None, :]).flatten(-2)
        place = (at[..., 0, :, None] * self.side + at[..., 1, None, :]).flatten(-2)
        total, chosen = total.topk(self.best, dim=-1)
        facts = self.facts(place.gather(-1, chosen))
        return torch.einsum("bthj,bthjc->btc", total.softmax(-1), facts)


def build() -> nn.Module:
    return CrossingMemory()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "output-unused"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 6, 32)},
    "mask": None,
    "axis": "memory",
    "embed_dim": 32,
    "heads": 2,
    "head_dim": 12,
    "returns": "out",
}
