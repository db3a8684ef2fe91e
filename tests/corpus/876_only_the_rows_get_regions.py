"""Regions are told apart by rows only: left and right border still mix.

Kind: shift-mask
"""

import torch
from torch import nn


class ShiftedWindowAttention(nn.Module):
    def __init__(self, dim=16, heads=2, window_size=4, shift_size=2):
        super().__init__()
        self.heads, self.window_size, self.shift_size = heads, window_size, shift_size
        self.qkv, self.proj = nn.Conv2d(dim, dim * 3, 1), nn.Conv2d(dim, dim, 1)

    def windows(self, t):
        b, c, h, w = t.shape
        s = self.window_size
        return t.view(b, c, h // s, s, w // s, s).permute(0, 2, 4, 3, 5, 1).reshape(b, -1, s * s, c)

    def forward(self, x):
        b, c, h, w = x.shape
        s, d = self.window_size, self.shift_size
        qkv = self.windows(self.qkv(torch.roll(x, (-d, -d), (2, 3))))
        q, k, v = qkv.unflatten(-1, (3, self.heads, -1)).permute(3, 0, 1, 4, 2, 5)
        region = (torch.arange(h, device=x.device) >= h - d).float().view(1, 1, h, 1).expand(1, 1, h, w)
        region = self.windows(region).squeeze(-1)
        hide = region.unsqueeze(2) != region.unsqueeze(3)
        a = (q @ k.mT * q.shape[-1] ** -0.5).masked_fill(hide[:, :, None], float("-inf")).softmax(-1)
        y = (a @ v).transpose(2, 3).flatten(3)
        y = y.view(b, h // s, w // s, s, s, c).permute(0, 5, 1, 3, 2, 4).reshape(b, c, h, w)
        return self.proj(torch.roll(y, (d, d), (2, 3)))


def build() -> nn.Module:
    return ShiftedWindowAttention()


EXPECTED = {"kind": "shift-mask", "severity": "error"}
CALL = {
    "attention": "window",
    "layout": "BCHW",
    "inputs": {"x": (2, 16, 8, 8)},
    "mask": None,
    "window": 4,
    "shift": 2,
    "embed_dim": 16,
    "heads": 2,
    "head_dim": 8,
    "returns": "out",
}
