"""Correct: learned prefix keys and values in front, the mask is padded in front too; causal for the real tokens.

Kind: correct
"""

import torch
import torch.nn.functional as F
from torch import nn


class PrefixAttention(nn.Module):
    """mask: bool [B, L], True = token. Every token sees the whole prefix and the tokens up to itself."""

    def __init__(self, dim=32, heads=4, prefix=3):
        super().__init__()
        self.heads, self.n = heads, prefix
        self.prefix_k = nn.Parameter(torch.randn(prefix, dim))
        self.prefix_v = nn.Parameter(torch.randn(prefix, dim))
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        B, L, _ = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        k = torch.cat((self.prefix_k.expand(B, -1, -1), k), 1)
        v = torch.cat((self.prefix_v.expand(B, -1, -1), v), 1)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (q, k, v))
        keep = F.pad(torch.ones(L, L, dtype=torch.bool, device=x.device).tril(), (self.n, 0), value=True)[None, None]
        if mask is not None:
            keep = keep & F.pad(mask, (self.n, 0), value=True)[:, None, None]
        return self.out(F.scaled_dot_product_attention(q, k, v, attn_mask=keep).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return PrefixAttention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "mask-shifted"}
CALL = {
    "attention": "causal",
    "layout": "BLD",
    "inputs": {"x": (2, 6, 32)},
    "causal": True,
    "mask": {"arg": "mask", "shape": (2, 6), "on": "keys", "polarity": "keep", "dtype": "bool"},
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
