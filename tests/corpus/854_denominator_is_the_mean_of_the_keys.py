"""The numerator sums over the keys, the denominator takes their mean.

Kind: linear-normaliser-wrong
"""

import torch
import torch.nn.functional as F
from torch import nn


class LinearAttention(nn.Module):
    """Katharopoulos et al., 2020: phi(q) sum(phi(k) v) / (phi(q) sum(phi(k)))"""

    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads, self.qkv, self.proj = heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        q, k = F.elu(q) + 1, F.elu(k) + 1
        z = 1 / (torch.einsum("bhnd,bhd->bhn", q, k.mean(dim=2)) + 1e-6)
        y = torch.einsum("bhnd,bhde,bhn->bhne", q, k.mT @ v, z)
        return self.proj(y.transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return LinearAttention()


EXPECTED = {"kind": "linear-normaliser-wrong", "severity": "error"}
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
