"""The additive bias goes through `beta`, which is the temperature instead of 1.

Kind: mask-scaled
"""

import torch
from torch import nn


class BiasedAttention(nn.Module):
    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads, self.qkv, self.proj = heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x, attn_bias=None):
        """attn_bias: float [batch, tokens, tokens], added to the scaled scores before the softmax."""
        b, n, _ = x.shape
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4).flatten(1, 2)
        s = q.shape[-1] ** -0.5
        if attn_bias is None:
            attn_bias = x.new_zeros(b, n, n)
        bias = attn_bias.repeat_interleave(self.heads, 0)
        w = torch.baddbmm(bias, q, k.mT, beta=s, alpha=s).softmax(-1)
        return self.proj((w @ v).unflatten(0, (b, self.heads)).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return BiasedAttention()


EXPECTED = {"kind": "mask-scaled", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 6, 32)},
    "mask": {"arg": "attn_bias", "shape": (2, 6, 6), "on": "pairs", "polarity": "additive", "dtype": "float"},
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
