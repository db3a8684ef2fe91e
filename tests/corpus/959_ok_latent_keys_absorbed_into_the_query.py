"""Latent attention: only a narrow latent is cached, the up-projections of keys and values are absorbed.

Kind: correct
"""

import torch
from torch import nn


class LatentAttention(nn.Module):
    def __init__(self, dim=32, heads=4, head_dim=8, latent=12):
        super().__init__()
        self.heads, self.scale = heads, head_dim**-0.5
        self.wq, self.down = nn.Linear(dim, heads * head_dim, bias=False), nn.Linear(dim, latent, bias=False)
        self.norm = nn.RMSNorm(latent)
        self.up_k = nn.Parameter(torch.randn(heads, head_dim, latent) * latent**-0.5)
        self.up_v = nn.Parameter(torch.randn(heads, head_dim, latent) * latent**-0.5)
        self.wo = nn.Linear(heads * head_dim, dim, bias=False)

    def forward(self, x, latent_cache=None):
        q = torch.einsum("bthd,hdc->bhtc", self.wq(x).unflatten(-1, (self.heads, -1)), self.up_k)
        c = self.norm(self.down(x))
        if latent_cache is not None:
            c = torch.cat([latent_cache, c], dim=1)
        n, total = x.shape[1], c.shape[1]
        s = torch.einsum("bhtc,bsc->bhts", q, c) * self.scale
        s = s.masked_fill(torch.ones(n, total, dtype=torch.bool, device=x.device).triu(total - n + 1), float("-inf"))
        y = torch.einsum("bhts,bsc,hdc->bthd", s.softmax(-1), c, self.up_v)
        return self.wo(y.flatten(2)), c


def build() -> nn.Module:
    return LatentAttention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
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
    "cache": {"style": "tensor", "arg": "latent_cache", "ret": 1},
}
