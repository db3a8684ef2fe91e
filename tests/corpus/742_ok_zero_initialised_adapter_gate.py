"""Correct: a Flamingo-like gated cross attention block; tanh(0) = 0 closes it at initialisation.

Kind: correct
"""

import torch
import torch.nn.functional as F
from torch import nn


class GatedCrossAttentionBlock(nn.Module):
    """x: (batch, tokens, dim), media: (batch, latents, dim_visual)."""

    def __init__(self, dim=32, dim_visual=32, heads=4):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(dim)
        self.to_q, self.to_kv = nn.Linear(dim, dim, bias=False), nn.Linear(dim_visual, 2 * dim, bias=False)
        self.to_out = nn.Linear(dim, dim, bias=False)
        self.ff = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
        self.attn_gate, self.ff_gate = nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(1))

    def forward(self, x, media):
        q, k, v = self.to_q(self.norm(x)), *self.to_kv(media).chunk(2, dim=-1)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (q, k, v))
        y = self.to_out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        x = x + y * self.attn_gate.tanh()
        return x + self.ff(x) * self.ff_gate.tanh()


def build() -> nn.Module:
    return GatedCrossAttentionBlock()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "output-unused"}
CALL = {
    "attention": "cross",
    "layout": "BLD",
    "inputs": {"x": (2, 5, 32), "media": (2, 7, 32)},
    "query_arg": "x",
    "context_arg": "media",
    "mask": None,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
