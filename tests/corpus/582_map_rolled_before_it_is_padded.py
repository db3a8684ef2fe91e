"""The roll comes before the padding: what wraps around lies in front of the padding, where the shift mask does not look.

Kind: shift-mask
"""

import torch
import torch.nn.functional as F
from torch import nn


class PaddedShiftedWindows(nn.Module):
    """x: [B, H, W, C], any size."""

    def __init__(self, dim=8, window_size=4, shift_size=2, heads=2):
        super().__init__()
        self.window_size, self.shift_size, self.heads = window_size, shift_size, heads
        self.norm, self.qkv, self.proj = nn.LayerNorm(dim), nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def cut(self, t):
        B, H, W, C = t.shape
        w = self.window_size
        return t.view(B, H // w, w, W // w, w, C).transpose(2, 3).reshape(B, -1, w * w, C)

    def region(self, n):
        r = torch.zeros(n, dtype=torch.long)
        r[-self.window_size : -self.shift_size], r[-self.shift_size :] = 1, 2
        return r

    def forward(self, x):
        B, H, W, C = x.shape
        w, s = self.window_size, self.shift_size
        y = torch.roll(self.norm(x), (-s, -s), (1, 2))
        y = F.pad(y, (0, 0, 0, -W % w, 0, -H % w))
        Hp, Wp = y.shape[1:3]
        ids = self.cut((3 * self.region(Hp)[:, None] + self.region(Wp))[None, :, :, None]).squeeze(-1)
        hide = (ids[..., None] != ids[:, :, None]).unsqueeze(2)
        q, k, v = self.qkv(self.cut(y)).unflatten(-1, (3, self.heads, -1)).permute(3, 0, 1, 4, 2, 5)
        a = (q @ k.mT * q.shape[-1] ** -0.5).masked_fill(hide, -100.0).softmax(-1)
        y = self.proj((a @ v).transpose(2, 3).flatten(3))
        y = y.view(B, Hp // w, Wp // w, w, w, C).transpose(2, 3).reshape(B, Hp, Wp, C)[:, :H, :W]
        return x + torch.roll(y, (s, s), (1, 2))


def build() -> nn.Module:
    return PaddedShiftedWindows()


EXPECTED = {"kind": "shift-mask", "severity": "error"}
CALL = {
    "attention": "window",
    "layout": "BHWC",
    "inputs": {"x": (1, 6, 7, 8)},
    "mask": None,
    "window": 4,
    "shift": 2,
    "embed_dim": 8,
    "heads": 2,
    "head_dim": 4,
    "returns": "out",
}
