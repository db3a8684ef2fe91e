"""1.5-entmax weights found by bisection: sparse rows that sum to 1.

Kind: correct
"""

import torch
from torch import nn


def entmax15(x: torch.Tensor, n_iter: int = 50) -> torch.Tensor:
    x = x / 2
    low = x.amax(-1, keepdim=True) - 1
    high = low + 1
    for _ in range(n_iter):
        tau = (low + high) / 2
        too_much = (x - tau).clamp(min=0).square().sum(-1, keepdim=True) >= 1
        low, high = torch.where(too_much, tau, low), torch.where(too_much, high, tau)
    p = (x - low).clamp(min=0).square()
    return p / p.sum(-1, keepdim=True)


class EntmaxAttention(nn.Module):
    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, query, key, value):
        q, k, v = (
            f(t).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for f, t in ((self.q, query), (self.k, key), (self.v, value))
        )
        return self.o((entmax15(q @ k.mT / q.shape[-1] ** 0.5) @ v).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return EntmaxAttention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "cross",
    "layout": "BLD",
    "inputs": {"query": (2, 4, 32), "key": (2, 6, 32), "value": "key"},
    "mask": None,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
