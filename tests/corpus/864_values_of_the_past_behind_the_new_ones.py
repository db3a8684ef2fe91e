"""Keys: past then new. Values: new then past.

Kind: cache-order
"""

import torch
from torch import nn


class DictCacheAttention(nn.Module):
    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, x, cache=None):
        q, k, v = (f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in (self.query, self.key, self.value))
        if cache:
            k = torch.cat([cache["k"], k], dim=2)
            v = torch.cat([v, cache["v"]], dim=2)
        n, m = q.size(2), k.size(2)
        mask = torch.full((n, m), float("-inf"), device=x.device, dtype=x.dtype).triu(m - n + 1)
        w = (q @ k.transpose(2, 3) / q.size(3) ** 0.5 + mask).softmax(-1)
        return self.out((w @ v).transpose(1, 2).flatten(2)), {"k": k, "v": v}


def build() -> nn.Module:
    return DictCacheAttention()


EXPECTED = {"kind": "cache-order", "severity": "error"}
CALL = {
    "attention": "kv-cache",
    "layout": "BLD",
    "inputs": {"x": (2, 8, 32)},
    "mask": None,
    "causal": True,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "(out, cache)",
    "cache": {"style": "dict", "arg": "cache", "ret": 1},
}
