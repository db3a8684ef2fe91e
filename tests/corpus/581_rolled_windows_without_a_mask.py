"""A shifted block rolls the map and never hides what the roll brought together. One line of tokens.

Kind: shift-mask
"""

import torch
import torch.nn.functional as F
from torch import nn


class ShiftedWindow1d(nn.Module):
    """x: [B, L, C], L a multiple of the window."""

    def __init__(self, channels=16, window_size=4, shift=2, heads=2):
        super().__init__()
        self.window_size, self.shift, self.heads = window_size, shift, heads
        self.norm = nn.LayerNorm(channels)
        self.qkv, self.proj = nn.Linear(channels, channels * 3), nn.Linear(channels, channels)

    def forward(self, x):
        B, L, C = x.shape
        y = torch.roll(self.norm(x), -self.shift, dims=1).reshape(-1, self.window_size, C)
        q, k, v = self.qkv(y).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(B, L, C)
        return x + self.proj(torch.roll(y, self.shift, dims=1))


def build() -> nn.Module:
    return ShiftedWindow1d()


EXPECTED = {"kind": "shift-mask", "severity": "error"}
CALL = {
    "attention": "window",
    "layout": "BLD",
    "inputs": {"x": (1, 12, 16)},
    "mask": None,
    "window": 4,
    "shift": 2,
    "embed_dim": 16,
    "heads": 2,
    "head_dim": 8,
    "returns": "out",
}
