"""Linear attention with relu features weighted by cos(pi/2 (i - j) / n), normalised with a floor.

Kind: correct
"""

import math

import torch
from torch import nn


class CosFormer(nn.Module):
    def __init__(self, dim=32, heads=4, eps=1e-6):
        super().__init__()
        self.heads, self.eps, self.qkv, self.proj = heads, eps, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        n = x.shape[1]
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        a = (math.pi / 2 / n * torch.arange(1, n + 1, device=x.device, dtype=x.dtype))[:, None]
        q, k = q.relu(), k.relu()
        q, k = torch.cat([q * a.sin(), q * a.cos()], -1), torch.cat([k * a.sin(), k * a.cos()], -1)
        z = (q @ k.sum(2).unsqueeze(-1)).clamp_min(self.eps)
        return self.proj((q @ (k.mT @ v) / z).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return CosFormer()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 8, 32)},
    "mask": None,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
