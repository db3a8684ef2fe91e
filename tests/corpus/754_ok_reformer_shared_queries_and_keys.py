"""Correct: queries are the keys (normalised), a token attends to itself only as a last resort (-5e4).

Kind: correct
"""

import torch
import torch.nn.functional as F
from torch import nn


class SharedQKAttention(nn.Module):
    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads = heads
        self.toqk, self.tov, self.to_out = (
            nn.Linear(dim, dim, bias=False),
            nn.Linear(dim, dim, bias=False),
            nn.Linear(dim, dim),
        )

    def forward(self, x):
        t = x.shape[1]
        qk, v = (f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in (self.toqk, self.tov))
        dot = torch.einsum("bhie,bhje->bhij", qk, F.normalize(qk, 2, dim=-1)) * qk.shape[-1] ** -0.5
        dot = dot.masked_fill(torch.eye(t, dtype=torch.bool, device=x.device), -5e4)
        return self.to_out((dot.softmax(dim=-1) @ v).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return SharedQKAttention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "causal-strict"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 7, 32)},
    "mask": None,
    "qk_norm": True,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
