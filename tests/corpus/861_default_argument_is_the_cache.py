"""A mutable default argument keeps the keys of all earlier calls.

Kind: cache-stale
"""

import torch
import torch.nn.functional as F
from torch import nn


class CachedAttention(nn.Module):
    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads, self.qkv, self.proj = heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x, past=[]):  # noqa: B006
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        past.append((k.detach(), v.detach()))
        k, v = torch.cat([p[0] for p in past[:-1]] + [k], 2), torch.cat([p[1] for p in past[:-1]] + [v], 2)
        keep = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=x.device).tril(k.shape[2] - q.shape[2])
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=keep)
        return self.proj(y.transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return CachedAttention()


EXPECTED = {"kind": "cache-stale", "severity": "error"}
CALL = {
    "attention": "kv-cache",
    "layout": "BLD",
    "inputs": {"x": (2, 6, 32)},
    "mask": None,
    "causal": True,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
