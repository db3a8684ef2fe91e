"""ALiBi for an encoder: -slope |i - j| on both sides, merged with the padding mask into one additive bias.

Kind: correct
"""

import torch
import torch.nn.functional as F
from torch import nn


class BidirectionalAlibi(nn.Module):
    """key_padding_mask: True = padding."""

    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads, self.qkv, self.proj = heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.register_buffer("slopes", 2 ** (-8 * torch.arange(1, heads + 1) / heads).view(-1, 1, 1), persistent=False)

    def forward(self, x, key_padding_mask=None):
        n = x.shape[1]
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        i = torch.arange(n, device=x.device)
        bias = -(i[:, None] - i[None]).abs() * self.slopes.to(x)
        if key_padding_mask is not None:
            bias = bias.masked_fill(key_padding_mask[:, None, None], torch.finfo(x.dtype).min)
        return self.proj(F.scaled_dot_product_attention(q, k, v, attn_mask=bias).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return BidirectionalAlibi()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 8, 32)},
    "mask": {"arg": "key_padding_mask", "shape": (2, 8), "on": "keys", "polarity": "drop", "dtype": "bool"},
    "position": "alibi",
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
