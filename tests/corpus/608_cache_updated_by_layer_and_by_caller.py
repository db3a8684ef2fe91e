"""The new keys are stored and then concatenated once more: each new token counts twice while decoding.

Kind: cache-order
"""

import torch
import torch.nn.functional as F
from torch import nn


class DoubleAppend(nn.Module):
    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x, past_key_value=None):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        present = (k, v)
        if past_key_value is not None:
            present = tuple(torch.cat((old, new), dim=2) for old, new in zip(past_key_value, (k, v), strict=True))
            k, v = (torch.cat((old, new), dim=2) for old, new in zip(present, (k, v), strict=True))
        n, m = q.size(2), k.size(2)
        keep = torch.ones(n, m, dtype=torch.bool, device=x.device).tril(m - n)
        return self.out(F.scaled_dot_product_attention(q, k, v, attn_mask=keep).transpose(1, 2).flatten(2)), present


def build() -> nn.Module:
    return DoubleAppend()


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
    "cache": {"style": "tuple", "arg": "past_key_value", "ret": 1},
}
