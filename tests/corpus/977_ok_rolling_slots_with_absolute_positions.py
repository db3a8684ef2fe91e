"""Sliding window with rotary keys: the cache is cut to the window, the position counter goes on.

Kind: correct
"""

import torch
import torch.nn.functional as F
from torch import nn


class RollingRotary(nn.Module):
    """Each token reads the `window` latest tokens, itself included."""

    def __init__(self, dim=32, heads=2, window=4):
        super().__init__()
        self.heads, self.window, self.qkv, self.o = heads, window, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def rotate(self, t, start):
        half = t.shape[-1] // 2
        freq = 1000.0 ** (-torch.arange(half, device=t.device, dtype=t.dtype) / half)
        a = (start + torch.arange(t.shape[-2], device=t.device))[:, None] * freq
        x, y = t.chunk(2, -1)
        return torch.cat((x * a.cos() - y * a.sin(), y * a.cos() + x * a.sin()), -1)

    def forward(self, x, past=None):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        start = 0 if past is None else past["seen"]
        q, k, n = self.rotate(q, start), self.rotate(k, start), x.shape[1]
        if past is not None:
            k, v = torch.cat((past["k"], k), 2), torch.cat((past["v"], v), 2)
        i, j = torch.arange(n, device=x.device)[:, None] + k.shape[2] - n, torch.arange(k.shape[2], device=x.device)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=(j <= i) & (j > i - self.window))
        keep = self.window - 1
        return self.o(y.transpose(1, 2).flatten(2)), {"k": k[:, :, -keep:], "v": v[:, :, -keep:], "seen": start + n}


def build() -> nn.Module:
    return RollingRotary()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "kv-cache",
    "layout": "BLD",
    "inputs": {"x": (2, 10, 32)},
    "mask": None,
    "causal": True,
    "window": 4,
    "position": "rope",
    "embed_dim": 32,
    "heads": 2,
    "head_dim": 16,
    "returns": "(out, cache)",
    "cache": {"style": "dict", "arg": "past", "ret": 1},
}
