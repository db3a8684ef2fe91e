"""mask[:n, :m] of a square triangle with m > n: the queries of a chunk see the oldest keys. List cache, appended in place.

Kind: causal-alignment
"""

import torch
from torch import nn


class ListCacheAttention(nn.Module):
    def __init__(self, dim=32, heads=4, max_len=64):
        super().__init__()
        self.heads = heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(dim, dim) for _ in range(4))
        self.register_buffer("mask", torch.tril(torch.ones(max_len, max_len)))

    def forward(self, x, kv_cache=None):
        """kv_cache: list of (key, value) per call so far, extended by this call."""
        q, k, v = (w(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        if kv_cache is not None:
            kv_cache.append((k, v))
            k, v = (torch.cat(ts, dim=2) for ts in zip(*kv_cache, strict=True))
        s = q @ k.mT / q.size(-1) ** 0.5
        s = s.masked_fill(self.mask[: q.size(2), : k.size(2)] == 0, float("-inf"))
        return self.wo((s.softmax(-1) @ v).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return ListCacheAttention()


EXPECTED = {"kind": "causal-alignment", "severity": "error"}
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
    "cache": {"style": "dict", "arg": "kv_cache"},
}
