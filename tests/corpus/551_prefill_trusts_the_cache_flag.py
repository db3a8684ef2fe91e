"""is_causal is switched off whenever caching is on, also for a prompt of many tokens.

Kind: causal-missing-in-prefill
"""

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class LayerCache:
    keys: list = field(default_factory=list)
    values: list = field(default_factory=list)

    def update(self, k, v):
        self.keys.append(k)
        self.values.append(v)
        return torch.cat(self.keys, dim=2), torch.cat(self.values, dim=2)


class DecoderAttention(nn.Module):
    def __init__(self, dim=32, n_heads=4):
        super().__init__()
        self.n_heads = n_heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(dim, dim, bias=False) for _ in range(4))

    def forward(self, x, cache: LayerCache | None = None):
        B, T, C = x.shape
        q, k, v = (w(x).view(B, T, self.n_heads, -1).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        if cache is not None:
            k, v = cache.update(k, v)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=cache is None)
        return self.wo(y.transpose(1, 2).reshape(B, T, C))


def build() -> nn.Module:
    return DecoderAttention()


EXPECTED = {"kind": "causal-missing-in-prefill", "severity": "error"}
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
