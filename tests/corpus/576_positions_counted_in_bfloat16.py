"""The positions are a bfloat16 arange: above 256, two, and later four, neighbours share a place.

Kind: rope-precision
"""

import torch
import torch.nn.functional as F
from torch import nn


class LongRotary(nn.Module):
    def __init__(self, dim=16, heads=2):
        super().__init__()
        self.heads, hd = heads, dim // heads
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.register_buffer("inv_freq", 10000.0 ** (-torch.arange(0, hd, 2).double() / hd), persistent=False)

    def apply_rope(self, t):
        pos = torch.arange(t.shape[-2], dtype=torch.bfloat16).double()
        ang = pos[:, None] * self.inv_freq.double()
        cos, sin = ang.cos().to(t.dtype), ang.sin().to(t.dtype)
        a, b = t[..., : t.shape[-1] // 2], t[..., t.shape[-1] // 2 :]
        return torch.cat((a * cos - b * sin, a * sin + b * cos), -1)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(self.apply_rope(q), self.apply_rope(k), v)
        return self.out(y.transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return LongRotary()


EXPECTED = {"kind": "rope-precision", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (1, 520, 16)},
    "mask": None,
    "position": "rope",
    "embed_dim": 16,
    "heads": 2,
    "head_dim": 8,
    "returns": "out",
}
