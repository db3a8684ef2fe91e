"""Correct: each pixel attends to its 3 x 3 neighbourhood; places outside the image are hidden.

Kind: correct
"""

import torch
import torch.nn.functional as F
from torch import nn


class NeighborhoodAttention2d(nn.Module):
    def __init__(self, dim=8, kernel_size=3, heads=2):
        super().__init__()
        self.k, self.heads, self.scale = kernel_size, heads, (dim // heads) ** -0.5
        self.qkv, self.proj = nn.Conv2d(dim, 3 * dim, 1), nn.Conv2d(dim, dim, 1)

    def patches(self, t):
        B, C, H, W = t.shape
        return F.unfold(t, self.k, padding=self.k // 2).view(B, self.heads, C // self.heads, self.k**2, H * W)

    def forward(self, x):
        B, C, H, W = x.shape
        q, k, v = self.qkv(x).chunk(3, 1)
        inside = F.unfold(torch.ones_like(x[:1, :1]), self.k, padding=self.k // 2).view(1, 1, self.k**2, H * W) > 0.5
        q = q.view(B, self.heads, -1, 1, H * W) * self.scale
        s = (q * self.patches(k)).sum(2).masked_fill(~inside, float("-inf"))
        out = (s.softmax(2).unsqueeze(2) * self.patches(v)).sum(3)
        return self.proj(out.reshape(B, C, H, W))


def build() -> nn.Module:
    return NeighborhoodAttention2d()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "softmax-axis"}
CALL = {
    "attention": "window",
    "layout": "BCHW",
    "inputs": {"x": (2, 8, 5, 6)},
    "mask": None,
    "window": "3x3 neighbourhood",
    "embed_dim": 8,
    "heads": 2,
    "head_dim": 4,
    "returns": "out",
}
