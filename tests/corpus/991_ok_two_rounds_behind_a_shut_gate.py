"""The same attention runs twice over the tokens; its gate is shut at the start, so both rounds begin alike.

Kind: correct
"""

import torch
from torch import nn


class Round(nn.Module):
    """x + gate * attention(x), the gate zero at the start."""

    def __init__(self, width=24):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.gate = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        w = (self.q(x) @ self.k(x).mT * x.shape[-1] ** -0.5).softmax(-1)
        return x + self.gate * (w @ self.v(x))


class Rounds(nn.Module):
    def __init__(self, width=24, rounds=2):
        super().__init__()
        self.rounds, self.step, self.last = rounds, Round(width), nn.Linear(width, width)

    def forward(self, x):
        for _ in range(self.rounds):
            x = self.step(x)
        return self.last(x)


def build() -> nn.Module:
    return Rounds()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "heads-collapsed"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 6, 24)},
    "mask": None,
    "causal": False,
    "window": None,
    "position": None,
    "embed_dim": 24,
    "heads": 1,
    "head_dim": 24,
    "returns": "tensor",
    "cache": None,
}
