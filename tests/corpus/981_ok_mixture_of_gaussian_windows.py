"""A Gaussian over the distance with a learned width per head is added to the scores.

Kind: correct
"""

import torch
import torch.nn.functional as F
from torch import nn


class GaussianBiasAttention(nn.Module):
    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads, self.qkv, self.proj = heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.log_sigma = nn.Parameter(torch.linspace(0.0, 1.5, heads).view(heads, 1, 1))

    def forward(self, x):
        n = x.shape[1]
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        i = torch.arange(n, device=x.device, dtype=x.dtype)
        bias = -((i[:, None] - i) ** 2) / (2 * self.log_sigma.exp() ** 2)
        return self.proj(F.scaled_dot_product_attention(q, k, v, attn_mask=bias).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return GaussianBiasAttention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 7, 32)},
    "mask": None,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
