"""Pooling of an image tower: the mean joins the pixels and asks; learned positions for one size.

Kind: correct
"""

import torch
import torch.nn.functional as F
from torch import nn


class AttentionPool2d(nn.Module):
    def __init__(self, spacial_dim=4, embed_dim=16, num_heads=2, output_dim=8):
        super().__init__()
        self.positional_embedding = nn.Parameter(torch.randn(spacial_dim**2 + 1, embed_dim) / embed_dim**0.5)
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(embed_dim, embed_dim) for _ in range(3))
        self.c_proj, self.num_heads = nn.Linear(embed_dim, output_dim), num_heads

    def forward(self, x):
        x = x.flatten(2).permute(0, 2, 1)
        x = torch.cat([x.mean(1, keepdim=True), x], dim=1) + self.positional_embedding
        q = self.q_proj(x[:, :1]).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k, v = (f(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for f in (self.k_proj, self.v_proj))
        return self.c_proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(1))


def build() -> nn.Module:
    return AttentionPool2d()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "pool",
    "layout": "BCHW",
    "inputs": {"x": (2, 16, 4, 4)},
    "mask": None,
    "channels": 16,
    "returns": "out",
}
