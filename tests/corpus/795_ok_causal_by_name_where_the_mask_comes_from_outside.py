"""The class inside is called CausalAttention and hides what its caller says; this caller, a reader of whole pages, hides nothing.

Kind: correct
"""

import torch
from torch import nn


class CausalAttention(nn.Module):
    """scores + mask, softmax, values. mask: additive, (n, n), from the caller, who says what is hidden."""

    def __init__(self, size, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(size, size) for _ in range(4))

    def forward(self, h, mask=None):
        q, k, v = (f(h).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
        scores = torch.matmul(q, k.mT) / q.shape[-1] ** 0.5
        scores = scores if mask is None else scores + mask
        return self.o(torch.matmul(scores.softmax(-1), v).transpose(1, 2).flatten(2))


class PageReader(nn.Module):
    """(batch, lines, size) -> (batch, lines, size)."""

    def __init__(self, size=28, heads=4):
        super().__init__()
        self.before, self.attention = nn.LayerNorm(size), CausalAttention(size, heads)
        self.after = nn.Sequential(nn.LayerNorm(size), nn.Linear(size, 2 * size), nn.Mish(), nn.Linear(2 * size, size))

    def forward(self, lines):
        lines = lines + self.attention(self.before(lines))
        return lines + self.after(lines)


def build() -> nn.Module:
    return PageReader()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "causal-missing"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"lines": (2, 7, 28)},
    "mask": None,
    "causal": False,
    "embed_dim": 28,
    "heads": 4,
    "head_dim": 7,
    "returns": "out",
}
