"""Half of each head is turned by the row, half by the column of the pixel.

Kind: correct
"""

import torch
import torch.nn.functional as F
from torch import nn


def turn(x, pos):
    d = x.shape[-1]
    freq = 100.0 ** (-torch.arange(0, d, 2, device=x.device, dtype=x.dtype) / d)
    a = pos.to(x)[:, None] * freq
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack((even * a.cos() - odd * a.sin(), even * a.sin() + odd * a.cos()), -1).flatten(-2)


class Rope2D(nn.Module):
    def __init__(self, dim=32, heads=2):
        super().__init__()
        self.heads, self.qkv, self.proj = heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        b, h, w, c = x.shape
        q, k, v = self.qkv(x).view(b, h * w, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        rows = torch.arange(h, device=x.device).repeat_interleave(w)
        columns = torch.arange(w, device=x.device).repeat(h)
        q, k = (torch.cat((turn(p, rows), turn(r, columns)), -1) for p, r in (t.chunk(2, -1) for t in (q, k)))
        y = F.scaled_dot_product_attention(q, k, v)
        return self.proj(y.transpose(1, 2).reshape(b, h, w, c))


def build() -> nn.Module:
    return Rope2D()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "self",
    "layout": "BHWC",
    "inputs": {"x": (2, 4, 5, 32)},
    "mask": None,
    "position": "rope2d",
    "embed_dim": 32,
    "heads": 2,
    "head_dim": 16,
    "returns": "out",
}
