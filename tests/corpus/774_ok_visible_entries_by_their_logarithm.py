"""Correct: the logarithm of 0 or 1 is added, which multiplies the weights by it before they are divided by their sum.

Kind: correct
"""

import torch
from torch import nn


class Glimpse(nn.Module):
    """One look of a decoder at a set: state (batch, dim), entries (batch, count, dim) -> (batch, dim)."""

    def __init__(self, dim=20):
        super().__init__()
        self.of_state, self.of_entry = nn.Linear(dim, dim), nn.Linear(dim, dim, bias=False)
        self.score = nn.Parameter(torch.randn(dim) / dim**0.5)

    def forward(self, state, entries, visible=None):
        energy = torch.tanh(self.of_state(state)[:, None] + self.of_entry(entries)) @ self.score
        if visible is not None:
            energy = energy + visible.to(energy).clamp_min(1e-30).log()
        return torch.einsum("bn,bnd->bd", energy.softmax(-1), entries)


def build() -> nn.Module:
    return Glimpse()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "mask-added-as-01"}
CALL = {
    "attention": "cross",
    "inputs": {"state": (3, 20), "entries": (3, 6, 20)},
    "mask": {"arg": "visible", "shape": (3, 6), "on": "context", "polarity": "keep", "dtype": "float"},
    "returns": "out",
}
