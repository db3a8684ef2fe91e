"""ALiBi slopes start at 2^0 instead of 2^(-8/n).

Kind: alibi-slopes
"""

import torch
import torch.nn.functional as F
from torch import nn


class AlibiEncoder(nn.Module):
    """Symmetric ALiBi: -slope * |i - j|."""

    def __init__(self, dim=32, heads=8):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.register_buffer("slopes", torch.tensor([2.0 ** (-8.0 * h / heads) for h in range(heads)]))

    def forward(self, x):
        n = x.shape[1]
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        alibi = -(torch.arange(n)[:, None] - torch.arange(n)).abs() * self.slopes[:, None, None]
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=alibi.to(q.dtype)[None])
        return self.out(y.transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return AlibiEncoder()


EXPECTED = {"kind": "alibi-slopes", "severity": "info"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 7, 32)},
    "mask": None,
    "position": "alibi",
    "embed_dim": 32,
    "heads": 8,
    "head_dim": 4,
    "returns": "out",
}
