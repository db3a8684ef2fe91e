"""The row offset is multiplied by the window width, not by 2 * width - 1: different offsets share a bias.

Kind: relative-index-collision
"""

import torch
from torch import nn


class WindowAttention(nn.Module):
    """Tokens of one window in raster order, [windows, Wh * Ww, C]."""

    def __init__(self, dim=16, window_size=(3, 4), num_heads=2):
        super().__init__()
        Wh, Ww = window_size
        self.num_heads = num_heads
        self.relative_position_bias_table = nn.Parameter(torch.randn((2 * Wh - 1) * (2 * Ww - 1), num_heads))
        ys, xs = torch.meshgrid(torch.arange(Wh), torch.arange(Ww), indexing="ij")
        dy = ys.flatten()[:, None] - ys.flatten()[None] + Wh - 1
        dx = xs.flatten()[:, None] - xs.flatten()[None] + Ww - 1
        self.register_buffer("index", dy * Ww + dx)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        q, k, v = self.qkv(x).reshape(B, N, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        bias = self.relative_position_bias_table[self.index].permute(2, 0, 1)
        attn = (q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5 + bias).softmax(dim=-1)
        return self.proj((attn @ v).transpose(1, 2).reshape(B, N, C))


def build() -> nn.Module:
    return WindowAttention()


EXPECTED = {"kind": "relative-index-collision", "severity": "error"}
CALL = {
    "attention": "window",
    "layout": "BLD",
    "inputs": {"x": (2, 12, 16)},
    "mask": None,
    "position": "relative-2d",
    "window": (3, 4),
    "embed_dim": 16,
    "heads": 2,
    "head_dim": 8,
    "returns": "out",
}
