"""Correct: the cache keeps the last window - 1 keys; rotary positions are absolute. Tuple in, tuple out.

Kind: correct
"""

import torch
from torch import nn


class RollingAttention(nn.Module):
    def __init__(self, dim=32, heads=4, window=3):
        super().__init__()
        self.heads, self.window = heads, window
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def rotate(self, t, start):
        half = t.size(-1) // 2
        pos = torch.arange(start, start + t.size(-2), dtype=torch.float64)
        ang = pos[:, None] * 10000.0 ** (-torch.arange(half, dtype=torch.float64) / half)
        c, s = ang.cos().to(t.dtype), ang.sin().to(t.dtype)
        a, b = t.chunk(2, -1)
        return torch.cat((a * c - b * s, b * c + a * s), -1)

    def forward(self, x, past=None):
        """past: (keys, values, number of tokens seen) or None -> (out, past)."""
        seen = 0 if past is None else past[2]
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        q, k = self.rotate(q, seen), self.rotate(k, seen)
        if past is not None:
            k, v = torch.cat((past[0], k), 2), torch.cat((past[1], v), 2)
        i = torch.arange(q.size(2))[:, None] + k.size(2) - q.size(2)
        j = torch.arange(k.size(2))[None]
        s = (q @ k.mT / q.size(-1) ** 0.5).masked_fill((j > i) | (j <= i - self.window), float("-inf"))
        y = self.out((s.softmax(-1) @ v).transpose(1, 2).flatten(2))
        keep = self.window - 1
        return y, (k[:, :, -keep:], v[:, :, -keep:], seen + x.size(1))


def build() -> nn.Module:
    return RollingAttention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "cache-rope-offset"}
CALL = {
    "attention": "kv-cache",
    "layout": "BLD",
    "inputs": {"x": (2, 8, 32)},
    "mask": None,
    "causal": True,
    "window": 3,
    "position": "rope",
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "(out, cache)",
    "cache": {"style": "tuple", "arg": "past", "ret": 1},
}
