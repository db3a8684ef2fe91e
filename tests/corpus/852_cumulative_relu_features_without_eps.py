"""Causal linear attention with relu features: early rows divide zero by zero.

Kind: linear-normaliser-zero
"""

import torch
from torch import nn


class CausalLinear(nn.Module):
    def __init__(self, dim=16, heads=8):
        super().__init__()
        self.heads, self.qkv, self.proj = heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        q, k = q.relu(), k.relu()
        state = torch.einsum("bhnd,bhne->bhnde", k, v).cumsum(2)
        norm = torch.einsum("bhnd,bhnd->bhn", q, k.cumsum(2))
        y = torch.einsum("bhnd,bhnde->bhne", q, state) / norm[..., None]
        return self.proj(y.transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return CausalLinear()


EXPECTED = {"kind": "linear-normaliser-zero", "severity": "error"}
CALL = {
    "attention": "causal",
    "layout": "BLD",
    "inputs": {"x": (2, 8, 16)},
    "mask": None,
    "causal": True,
    "embed_dim": 16,
    "heads": 8,
    "head_dim": 2,
    "returns": "out",
}
