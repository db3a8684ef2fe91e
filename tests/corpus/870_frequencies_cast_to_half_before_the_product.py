"""Angles are computed in bfloat16: from 256 on neighbouring positions share an angle.

Kind: rope-precision
"""

import torch
import torch.nn.functional as F
from torch import nn


class Rotary(nn.Module):
    def __init__(self, dim, base=10000.0):
        super().__init__()
        self.register_buffer("inv_freq", base ** (-torch.arange(0, dim, 2) / dim), persistent=False)

    def forward(self, n, device):
        t = torch.arange(n, device=device, dtype=torch.bfloat16)
        freqs = torch.outer(t, self.inv_freq.to(torch.bfloat16))
        return torch.cat((freqs, freqs), -1)


class CausalRotary(nn.Module):
    def __init__(self, dim=32, heads=2):
        super().__init__()
        self.heads, self.rotary = heads, Rotary(dim // heads)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        angle = self.rotary(x.shape[1], x.device)
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)

        def turn(t):
            return t * cos + torch.cat((-t[..., 8:], t[..., :8]), -1) * sin

        y = F.scaled_dot_product_attention(turn(q), turn(k), v, is_causal=True)
        return self.proj(y.transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return CausalRotary()


EXPECTED = {"kind": "rope-precision", "severity": "error"}
CALL = {
    "attention": "causal",
    "layout": "BLD",
    "inputs": {"x": (1, 16, 32)},
    "mask": None,
    "causal": True,
    "position": "rope",
    "embed_dim": 32,
    "heads": 2,
    "head_dim": 16,
    "returns": "out",
}
