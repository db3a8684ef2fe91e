"""Causal: each piece of five tokens is given its own keys and those of the piece before, and no text says so.

Kind: correct
"""

import torch
import torch.nn.functional as F
from torch import nn


class Pieces(nn.Module):
    def __init__(self, dim=18, heads=3, piece=5):
        super().__init__()
        self.heads, self.piece = heads, piece
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        b, n, _ = x.shape
        c, rest = self.piece, -n % self.piece
        q, k, v = (
            F.pad(self.qkv(x), (0, 0, 0, rest))
            .view(b, -1, c, 3, self.heads, x.shape[-1] // self.heads)
            .permute(3, 0, 1, 4, 2, 5)
        )
        k, v = (torch.cat((F.pad(t, (0, 0, 0, 0, 0, 0, 1, -1)), t), -2) for t in (k, v))
        at = torch.arange(c, device=x.device)
        ahead = torch.arange(-c, c, device=x.device) > at[:, None]
        first = torch.arange(2 * c, device=x.device) < c
        hide = ahead.expand(q.shape[1], c, 2 * c).clone()
        hide[0] |= first
        s = (q @ k.mT * q.shape[-1] ** -0.5).masked_fill(hide[:, None], -torch.inf)
        return self.out((s.softmax(-1) @ v).transpose(2, 3).reshape(b, n + rest, -1)[:, :n])


def build() -> nn.Module:
    return Pieces()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "chunk-boundary"}
CALL = {
    "attention": "causal",
    "layout": "BLD",
    "inputs": {"x": (2, 12, 18)},
    "mask": None,
    "causal": True,
    "embed_dim": 18,
    "heads": 3,
    "head_dim": 6,
    "returns": "out",
}
