"""Frozen projections with low-rank additions whose second factor starts at zero.

Kind: correct
"""

import torch
import torch.nn.functional as F
from torch import nn


class LoRALinear(nn.Linear):
    def __init__(self, n_in, n_out, r=4, alpha=8):
        super().__init__(n_in, n_out)
        self.weight.requires_grad_(False)
        self.bias.requires_grad_(False)
        self.lora_A = nn.Parameter(torch.randn(r, n_in) * n_in**-0.5)
        self.lora_B = nn.Parameter(torch.zeros(n_out, r))
        self.scaling = alpha / r

    def forward(self, x):
        return super().forward(x) + (x @ self.lora_A.T @ self.lora_B.T) * self.scaling


class LoRAAttention(nn.Module):
    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads = heads
        self.q, self.v = LoRALinear(dim, dim), LoRALinear(dim, dim)
        self.k, self.o = nn.Linear(dim, dim).requires_grad_(False), nn.Linear(dim, dim).requires_grad_(False)

    def forward(self, x):
        q, k, v = (f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
        return self.o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return LoRAAttention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 6, 32)},
    "mask": None,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
