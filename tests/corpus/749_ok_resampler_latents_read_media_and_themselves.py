"""Correct: Perceiver resampler; learned latents attend to the media and to the latents themselves.

Kind: correct
"""

import torch
import torch.nn.functional as F
from torch import nn


class PerceiverResampler(nn.Module):
    """media: [B, N, dim] -> [B, num_latents, dim]."""

    def __init__(self, dim=32, num_latents=3, heads=4):
        super().__init__()
        self.heads, self.latents = heads, nn.Parameter(torch.randn(num_latents, dim))
        self.norm_media, self.norm_latents = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.to_q, self.to_kv = nn.Linear(dim, dim, bias=False), nn.Linear(dim, 2 * dim, bias=False)
        self.to_out = nn.Linear(dim, dim, bias=False)

    def forward(self, media):
        latents = self.norm_latents(self.latents).expand(media.shape[0], -1, -1)
        k, v = self.to_kv(torch.cat((self.norm_media(media), latents), dim=1)).chunk(2, dim=-1)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (self.to_q(latents), k, v))
        return self.latents + self.to_out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return PerceiverResampler()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "wrong-source"}
CALL = {
    "attention": "pool",
    "layout": "BLD",
    "inputs": {"media": (2, 6, 32)},
    "mask": None,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
