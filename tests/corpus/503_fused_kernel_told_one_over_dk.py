"""The fused kernel takes a factor, and is given 1 / d where 1 / sqrt(d) is meant.

Kind: scale-dk-not-sqrt
"""

import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    def __init__(self, dim=48, num_heads=4, qkv_bias=True):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = dim // num_heads
        self.scale = 1.0 / self.head_dim
        self.qkv = nn.Linear(dim, dim * 3, bias=qkv_bias)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.num_heads, self.head_dim).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        x = F.scaled_dot_product_attention(q, k, v, scale=self.scale)
        return self.proj(x.transpose(1, 2).reshape(B, N, C))


def build() -> nn.Module:
    return Attention()


EXPECTED = {"kind": "scale-dk-not-sqrt", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 7, 48)},
    "mask": None,
    "embed_dim": 48,
    "heads": 4,
    "head_dim": 12,
    "returns": "out",
    "probe": {"qkv": "qkv", "heads": 4},
}
