"""torch.cat([k, past_k]): new keys come first, and the causal mask then hides the wrong ones. Cache as one stacked tensor.

Kind: cache-order
"""

import torch
import torch.nn.functional as F
from torch import nn


class StackedCacheAttention(nn.Module):
    def __init__(self, nx=32, n_head=4):
        super().__init__()
        self.n_head, self.c_attn, self.c_proj = n_head, nn.Linear(nx, 3 * nx), nn.Linear(nx, nx)

    def split_heads(self, t):
        return t.view(*t.shape[:-1], self.n_head, -1).permute(0, 2, 1, 3)

    def forward(self, x, past=None):
        """past: stacked keys and values [2, B, H, S, d] or None -> (output, present)."""
        query, key, value = (self.split_heads(t) for t in self.c_attn(x).split(x.size(-1), dim=2))
        if past is not None:
            key, value = torch.cat((key, past[0]), dim=-2), torch.cat((value, past[1]), dim=-2)
        present = torch.stack((key, value))
        nd, ns = query.size(-2), key.size(-2)
        i, j = torch.arange(nd)[:, None], torch.arange(ns)
        mask = i >= j - ns + nd
        a = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        return self.c_proj(a.permute(0, 2, 1, 3).flatten(2)), present


def build() -> nn.Module:
    return StackedCacheAttention()


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
    "cache": {"style": "tuple", "arg": "past", "ret": 1, "chunk": 2},
}
