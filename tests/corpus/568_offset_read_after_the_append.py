"""Rotary offset = length of the cache, but read after the new keys were appended: positions run ahead.

Kind: cache-rope-offset
"""

import torch
import torch.nn.functional as F
from torch import nn


def rope(t, start):
    d = t.shape[-1]
    ang = torch.arange(start, start + t.shape[-2], dtype=t.dtype)[:, None]
    ang = ang * 10000 ** (-torch.arange(0, d, 2, dtype=t.dtype) / d)
    x = torch.view_as_complex(t.contiguous().view(*t.shape[:-1], d // 2, 2))
    return torch.view_as_real(x * torch.polar(torch.ones_like(ang), ang)).flatten(-2)


class RotaryDecoder(nn.Module):
    def __init__(self, dim=32, n_heads=4):
        super().__init__()
        self.n_heads = n_heads
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(dim, dim, bias=False) for _ in range(4))

    def forward(self, x, cache=None):
        """cache: dict with "k" and "v", filled in place; "k" holds keys that are not rotated yet."""
        q, k, v = (
            f(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for f in (self.q_proj, self.k_proj, self.v_proj)
        )
        offset = 0
        if cache is not None:
            if "k" in cache:
                k, v = torch.cat((cache["k"], k), 2), torch.cat((cache["v"], v), 2)
                offset = k.shape[2]
            cache["k"], cache["v"] = k, v
        q, k = rope(q, offset), rope(k, 0)
        keep = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril(k.shape[2] - q.shape[2])
        return self.o_proj(F.scaled_dot_product_attention(q, k, v, attn_mask=keep).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return RotaryDecoder()


EXPECTED = {"kind": "cache-rope-offset", "severity": "error"}
CALL = {
    "attention": "kv-cache",
    "layout": "BLD",
    "inputs": {"x": (2, 8, 32)},
    "mask": None,
    "causal": True,
    "position": "rope",
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
    "cache": {"style": "dict", "arg": "cache"},
}
