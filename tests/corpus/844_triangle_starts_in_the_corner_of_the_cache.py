"""With a cache the triangle of (new, all) keys starts at the top left: new tokens miss most of the past.

Kind: causal-alignment
"""

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads, self.qkv, self.o = heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x, kv_cache=None):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        if kv_cache is not None:
            k = torch.cat([kv_cache[0], k], dim=2)
            v = torch.cat([kv_cache[1], v], dim=2)
        hide = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=x.device).triu(1)
        if q.shape[2] == 1:
            hide[:] = False
        s = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(hide, float("-inf"))
        return self.o((s.softmax(-1) @ v).transpose(1, 2).flatten(2)), [k, v]


def build() -> nn.Module:
    return Attention()


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
    "returns": "(out, cache)",
    "cache": {"style": "list", "arg": "kv_cache", "ret": 1},
}
