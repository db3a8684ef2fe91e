"""A preallocated cache object; a single step attends to all slots, written or not.

Kind: cache-occupancy
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class LayerCache:
    k: torch.Tensor
    v: torch.Tensor
    length: int = 0


class BufferAttention(nn.Module):
    def __init__(self, dim=32, heads=4, max_len=16):
        super().__init__()
        self.heads, self.max_len = heads, max_len
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def new_cache(self, batch):
        p = self.proj.weight
        k = torch.zeros(batch, self.heads, self.max_len, p.shape[0] // self.heads, dtype=p.dtype, device=p.device)
        return LayerCache(k, torch.zeros_like(k))

    def forward(self, x, cache: LayerCache | None = None):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        n = q.shape[2]
        if cache is None:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            start, cache.length = cache.length, cache.length + n
            cache.k[:, :, start : cache.length], cache.v[:, :, start : cache.length] = k, v
            if n == 1:
                y = F.scaled_dot_product_attention(q, cache.k, cache.v)
            else:
                keep = (
                    torch.arange(self.max_len, device=x.device) <= (start + torch.arange(n, device=x.device))[:, None]
                )
                y = F.scaled_dot_product_attention(q, cache.k, cache.v, attn_mask=keep)
        return self.proj(y.transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return BufferAttention()


EXPECTED = {"kind": "cache-occupancy", "severity": "error"}
CALL = {
    "attention": "kv-cache",
    "layout": "BLD",
    "inputs": {"x": (2, 8, 32)},
    "mask": None,
    "causal": True,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
    "cache": {"style": "object", "arg": "cache"},
}
