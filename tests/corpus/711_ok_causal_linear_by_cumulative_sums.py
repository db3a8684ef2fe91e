"""Correct: causal linear attention as cumulative sums of k v^T and of k.

Kind: correct
"""

import torch
import torch.nn.functional as F
from torch import nn


class CausalLinearAttention(nn.Module):
    def __init__(self, dim=24, heads=3, eps=1e-6):
        super().__init__()
        self.heads, self.eps = heads, eps
        self.query_projection, self.key_projection = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.value_projection, self.out_projection = nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(self, x):
        N, L, _ = x.shape
        Q = F.elu(self.query_projection(x)).add(1).view(N, L, self.heads, -1)
        K = F.elu(self.key_projection(x)).add(1).view(N, L, self.heads, -1)
        V = self.value_projection(x).view(N, L, self.heads, -1)
        Z = 1 / (torch.einsum("nlhd,nlhd->nlh", Q, K.cumsum(1)) + self.eps)
        S = torch.einsum("nlhd,nlhm->nlhdm", K, V).cumsum(1)
        Y = torch.einsum("nlhd,nlhdm,nlh->nlhm", Q, S, Z)
        return self.out_projection(Y.reshape(N, L, -1))


def build() -> nn.Module:
    return CausalLinearAttention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "linear-unnormalised"}
CALL = {
    "attention": "linear",
    "layout": "BLD",
    "inputs": {"x": (2, 7, 24)},
    "mask": None,
    "causal": True,
    "embed_dim": 24,
    "heads": 3,
    "head_dim": 8,
    "returns": "out",
}
