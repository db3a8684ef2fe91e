"""A shelf of fixed size holds keys and values; one new token is masked like many, so that places not yet filled are hidden.

Kind: correct
"""

import torch
from torch import nn


class ShelfBlock(nn.Module):
    """A causal block. Whole sequences: block(x). Pieces, one after another: block(x, decode=True), after clear()."""

    def __init__(self, dim=40, groups=5, places=48, most=4):
        super().__init__()
        self.groups = groups
        self.ln = nn.LayerNorm(dim)
        self.qkv, self.back = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim)
        self.register_buffer("shelf", torch.zeros(2, most, places, groups, dim // groups), persistent=False)
        self.register_buffer("taken", torch.zeros((), dtype=torch.long), persistent=False)

    def clear(self):
        self.shelf.zero_()
        self.taken.zero_()

    def put(self, fresh):
        (_, b, n), at = fresh.shape[:3], int(self.taken)
        self.shelf[:, :b, at : at + n] = fresh
        self.taken += n
        return self.shelf[:, :b], at

    def forward(self, x, decode=False):
        n = x.shape[1]
        q, *fresh = self.qkv(self.ln(x)).unflatten(-1, (3, self.groups, -1)).unbind(2)
        (k, v), at = self.put(torch.stack(fresh).detach()) if decode else (fresh, 0)
        logit = torch.einsum("btgc,bsgc->bgts", q, k) / q.shape[-1] ** 0.5
        logit = logit.masked_fill(torch.arange(k.shape[1]) > torch.arange(at, at + n)[:, None], -torch.inf)
        return x + self.back(torch.einsum("bgts,bsgc->btgc", logit.softmax(-1), v).flatten(2))


def build() -> nn.Module:
    return ShelfBlock()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "cache-occupancy"}
CALL = {
    "attention": "kv-cache",
    "layout": "BLD",
    "inputs": {"x": (2, 8, 40)},
    "mask": None,
    "causal": True,
    "embed_dim": 40,
    "heads": 5,
    "head_dim": 8,
    "returns": "out",
    "cache": {"style": "internal", "arg": "decode", "reset": "clear"},
}
