"""ALiBi distances count new tokens from 0, so that with a cache the bias is shifted by a different amount per row.

Kind: cache-position-bias
"""

import torch
from torch import nn


class AlibiDecoder(nn.Module):
    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads, self.in_proj, self.out_proj = heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.register_buffer("slopes", 2.0 ** (-8 * torch.arange(1, heads + 1) / heads), persistent=False)

    def forward(self, x, layer_past=None, use_cache=False):
        q, k, v = self.in_proj(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        if layer_past is not None:
            k, v = torch.cat((layer_past[0], k), -2), torch.cat((layer_past[1], v), -2)
        n, m = q.size(-2), k.size(-2)
        distance = (torch.arange(n)[:, None] - torch.arange(m)[None]).abs()
        s = q @ k.mT / q.size(-1) ** 0.5 - self.slopes.view(-1, 1, 1) * distance
        s = s.masked_fill(torch.ones(n, m, dtype=torch.bool).triu(m - n + 1), float("-inf"))
        y = self.out_proj((s.softmax(-1) @ v).transpose(1, 2).flatten(2))
        return y, ((k, v) if use_cache else None)


def build() -> nn.Module:
    return AlibiDecoder()


EXPECTED = {"kind": "cache-position-bias", "severity": "error"}
CALL = {
    "attention": "kv-cache",
    "layout": "BLD",
    "inputs": {"x": (2, 8, 32)},
    "mask": None,
    "causal": True,
    "position": "alibi",
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "(out, cache)",
    "cache": {"style": "tuple", "arg": "layer_past", "ret": 1},
}
