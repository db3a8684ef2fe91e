"""The map is shifted, and shifted again instead of back: outputs stand four pixels off.

Kind: window-reverse
"""

import torch
import torch.nn.functional as F
from torch import nn


class ShiftedWindowBlock(nn.Module):
    def __init__(self, dim=16, heads=2, window=4, shift=2, size=8):
        super().__init__()
        self.heads, self.w, self.s = heads, window, shift
        self.norm, self.qkv, self.proj = nn.LayerNorm(dim), nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        region = torch.zeros(size, size)
        cuts = (slice(0, -window), slice(-window, -shift), slice(-shift, None))
        for a, rows in enumerate(cuts):
            for b, columns in enumerate(cuts):
                region[rows, columns] = 3 * a + b
        region = self.split(region[None, :, :, None]).squeeze(-1)
        self.register_buffer("keep", (region[:, None] == region[:, :, None])[None, :, None], persistent=False)

    def split(self, x):
        b, h, w, c = x.shape
        return x.view(b, h // self.w, self.w, w // self.w, self.w, c).transpose(2, 3).reshape(-1, self.w**2, c)

    def forward(self, x):
        b, h, w, c = x.shape
        t = self.split(torch.roll(self.norm(x), (-self.s, -self.s), (1, 2)))
        q, k, v = self.qkv(t).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        q, k, v = (y.unflatten(0, (b, -1)) for y in (q, k, v))
        t = self.proj(F.scaled_dot_product_attention(q, k, v, attn_mask=self.keep).transpose(2, 3).flatten(3))
        t = t.view(b, h // self.w, w // self.w, self.w, self.w, c).transpose(2, 3).reshape(b, h, w, c)
        return x + torch.roll(t, (-self.s, -self.s), (1, 2))


def build() -> nn.Module:
    return ShiftedWindowBlock()


EXPECTED = {"kind": "window-reverse", "severity": "error"}
CALL = {
    "attention": "window",
    "layout": "BHWC",
    "inputs": {"x": (2, 8, 8, 16)},
    "mask": None,
    "window": 4,
    "shift": 2,
    "embed_dim": 16,
    "heads": 2,
    "head_dim": 8,
    "returns": "out",
}
