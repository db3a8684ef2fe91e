"""Queries are turned in (i, i + d/2) pairs, keys in (2i, 2i + 1) pairs.

Kind: rope-pairing
"""

import torch
import torch.nn.functional as F
from torch import nn


def angles(n, half, like):
    return torch.arange(n, device=like.device, dtype=like.dtype)[:, None] * 10000.0 ** (
        -torch.arange(half, device=like.device, dtype=like.dtype) / half
    )


def rope_half(x):
    t = angles(x.shape[-2], x.shape[-1] // 2, x)
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * t.cos() - b * t.sin(), a * t.sin() + b * t.cos()), -1)


def rope_complex(x):
    t = angles(x.shape[-2], x.shape[-1] // 2, x)
    z = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(z * torch.polar(torch.ones_like(t), t)).flatten(-2)


class MixedRotary(nn.Module):
    def __init__(self, dim=32, heads=2):
        super().__init__()
        self.heads, self.qkv, self.proj = heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(rope_half(q), rope_complex(k), v)
        return self.proj(y.transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return MixedRotary()


EXPECTED = {"kind": "rope-pairing", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 6, 32)},
    "mask": None,
    "position": "rope",
    "embed_dim": 32,
    "heads": 2,
    "head_dim": 16,
    "returns": "out",
}
