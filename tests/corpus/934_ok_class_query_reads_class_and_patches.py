"""Class attention: only the first token asks, patches pass through unchanged.

Kind: correct
"""

import torch
import torch.nn.functional as F
from torch import nn


class ClassAttentionBlock(nn.Module):
    def __init__(self, dim=32, num_heads=4, eta=1e-5):
        super().__init__()
        self.num_heads = num_heads
        self.norm = nn.LayerNorm(dim)
        self.q, self.k, self.v, self.proj = (nn.Linear(dim, dim) for _ in range(4))
        self.gamma = nn.Parameter(eta * torch.ones(dim))

    def forward(self, x):
        B, N, C = x.shape
        y = self.norm(x)
        q = self.q(y[:, :1]).reshape(B, 1, self.num_heads, -1).transpose(1, 2)
        k, v = (f(y).reshape(B, N, self.num_heads, -1).transpose(1, 2) for f in (self.k, self.v))
        cls = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(B, 1, C)
        return torch.cat((x[:, :1] + self.gamma * self.proj(cls), x[:, 1:]), dim=1)


def build() -> nn.Module:
    return ClassAttentionBlock()


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
