"""Towns that were seen get -inf, and the cap turns that into -6: they are read again.

Kind: softcap-after-mask
"""

import torch
from torch import nn


class TourStep(nn.Module):
    """One step of a tour: towns that were seen are not read again.

    guides (batch, guides, width) ask, towns (batch, towns, width) answer; seen_before (batch, towns), optional.
    """

    def __init__(self, width=24, heads=4, cap=6.0):
        super().__init__()
        self.heads, self.cap = heads, cap
        self.q, self.kv, self.out = nn.Linear(width, width), nn.Linear(width, 2 * width), nn.Linear(width, width)

    def split(self, t):
        return t.unflatten(2, (self.heads, -1)).transpose(1, 2)

    def forward(self, guides, towns, seen_before=None):
        k, v = map(self.split, self.kv(towns).chunk(2, 2))
        scores = self.split(self.q(guides)) @ k.mT / k.shape[-1] ** 0.5
        if seen_before is not None:
            scores = scores.masked_fill(seen_before[:, None, None], float("-inf"))
        scores = self.cap * torch.tanh(scores / self.cap)
        read = scores.softmax(-1) @ v
        return self.out(read.transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return TourStep()


EXPECTED = {"kind": "softcap-after-mask", "severity": "error"}
CALL = {
    "attention": "cross",
    "layout": "BLD",
    "inputs": {"guides": (2, 3, 24), "towns": (2, 8, 24)},
    "query_arg": "guides",
    "context_arg": "towns",
    "mask": {"arg": "seen_before", "shape": (2, 8), "on": "context", "polarity": "ignore", "dtype": "bool"},
    "causal": False,
    "embed_dim": 24,
    "heads": 4,
    "head_dim": 6,
    "returns": "out",
}
