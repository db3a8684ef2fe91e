"""A dataclass with room for the text, and a mask that hides slots not yet written and slots out of the window.

Kind: correct
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class KVCache:
    k: torch.Tensor
    v: torch.Tensor
    pos: int = 0


class WindowDecoder(nn.Module):
    """Each token reads the `window` latest tokens, itself included."""

    def __init__(self, dim=32, heads=4, window=4, max_len=32):
        super().__init__()
        self.heads, self.window, self.max_len = heads, window, max_len
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def make_cache(self, batch_size):
        w = self.proj.weight
        zeros = w.new_zeros(batch_size, self.heads, self.max_len, w.shape[0] // self.heads)
        return KVCache(zeros, zeros.clone())

    def forward(self, x, cache: KVCache | None = None):
        n = x.shape[1]
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        start = 0
        if cache is not None:
            start, cache.pos = cache.pos, cache.pos + n
            cache.k[:, :, start : cache.pos] = k
            cache.v[:, :, start : cache.pos] = v
            k, v = cache.k, cache.v
        i = torch.arange(start, start + n, device=x.device)[:, None]
        j = torch.arange(k.shape[2], device=x.device)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=(j <= i) & (j > i - self.window))
        return self.proj(y.transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return WindowDecoder()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "kv-cache",
    "layout": "BLD",
    "inputs": {"x": (2, 10, 32)},
    "mask": None,
    "causal": True,
    "window": 4,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
    "cache": {"style": "object", "arg": "cache"},
}
