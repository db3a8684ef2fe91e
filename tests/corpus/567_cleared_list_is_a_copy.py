"""clear_cache empties a copy of the list, so that the next sequence still sees the last one.

Kind: cache-stale
"""

import torch
import torch.nn.functional as F
from torch import nn


class StreamingAttention(nn.Module):
    """Call step by step with use_cache=True; clear_cache() before the next sequence."""

    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads, self.past = heads, []
        self.wq, self.wkv, self.wo = nn.Linear(dim, dim), nn.Linear(dim, 2 * dim), nn.Linear(dim, dim)

    def clear_cache(self):
        list(self.past).clear()

    def forward(self, x, use_cache=False):
        q = self.wq(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        kv = self.wkv(x)
        if use_cache:
            self.past.append(kv.detach())
            kv = torch.cat(self.past, dim=1)
        k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in kv.chunk(2, -1))
        n, m = q.size(2), k.size(2)
        bias = torch.zeros(n, m, dtype=q.dtype).masked_fill(torch.ones(n, m).triu(m - n + 1).bool(), float("-inf"))
        return self.wo(F.scaled_dot_product_attention(q, k, v, attn_mask=bias).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return StreamingAttention()


EXPECTED = {"kind": "cache-stale", "severity": "error"}
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
    "cache": {"style": "internal", "arg": "use_cache", "reset": "clear_cache"},
}
