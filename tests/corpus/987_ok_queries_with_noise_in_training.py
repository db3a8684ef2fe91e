"""Learned queries get noise while training, so that they part; in eval there is none.

Kind: correct
"""

import torch
from torch import nn


class NoisyQueries(nn.Module):
    """(batch, tokens, width) -> (batch, queries, width)."""

    def __init__(self, width=24, queries=4, noise=0.3):
        super().__init__()
        self.noise, self.seeds = noise, nn.Parameter(torch.randn(queries, width))
        self.q, self.kv, self.out = nn.Linear(width, width), nn.Linear(width, 2 * width), nn.Linear(width, width)

    def forward(self, tokens):
        seeds = self.seeds.expand(len(tokens), -1, -1)
        if self.training:
            seeds = seeds + self.noise * torch.randn_like(seeds)
        k, v = self.kv(tokens).chunk(2, -1)
        return self.out((self.q(seeds) @ k.mT * k.shape[-1] ** -0.5).softmax(-1) @ v)


def build() -> nn.Module:
    return NoisyQueries()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "path-mismatch"}
CALL = {
    "attention": "pooling",
    "layout": "BLD",
    "inputs": {"tokens": (2, 7, 24)},
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
