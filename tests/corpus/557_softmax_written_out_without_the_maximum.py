"""exp(logits) / sum, without subtracting the largest logit first.

Kind: logit-overflow
"""

import torch
from torch import nn


class ExpAttention(nn.Module):
    def __init__(self, dim=32, heads=2):
        super().__init__()
        self.heads = heads
        self.W = nn.Parameter(torch.randn(3, heads, dim, dim // heads) / dim**0.5)
        self.out = nn.Linear(dim, dim)

    def forward(self, x):
        q, k, v = torch.einsum("bld,rhde->rbhle", x, self.W)
        e = torch.exp(torch.einsum("bhle,bhme->bhlm", q, k) / q.shape[-1] ** 0.5)
        a = e / e.sum(dim=-1, keepdim=True)
        return self.out(torch.einsum("bhlm,bhme->blhe", a, v).flatten(2))


def build() -> nn.Module:
    return ExpAttention()


EXPECTED = {"kind": "logit-overflow", "severity": "warning"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 6, 32)},
    "mask": None,
    "embed_dim": 32,
    "heads": 2,
    "head_dim": 16,
    "returns": "out",
}
