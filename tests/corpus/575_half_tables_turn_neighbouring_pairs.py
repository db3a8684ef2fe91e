"""cos and sin are laid out for halves (f0..f3, f0..f3), and rotate_every_two turns neighbours.

Kind: rope-pairing
"""

import torch
import torch.nn.functional as F
from torch import nn


class RotaryEmbedding(nn.Module):
    def __init__(self, dim, base=10000):
        super().__init__()
        self.register_buffer("inv_freq", 1.0 / (base ** (torch.arange(0, dim, 2).float() / dim)), persistent=False)

    def forward(self, n, dtype):
        freqs = torch.outer(torch.arange(n, dtype=dtype), self.inv_freq.to(dtype))
        emb = torch.cat((freqs, freqs), dim=-1)
        return emb.cos(), emb.sin()


def rotate(x):
    x = x.reshape(*x.shape[:-1], -1, 2)
    return torch.stack((-x[..., 1], x[..., 0]), dim=-1).flatten(-2)


class GPTJLikeAttention(nn.Module):
    def __init__(self, dim=32, heads=2):
        super().__init__()
        self.heads, self.rotary = heads, RotaryEmbedding(dim // heads)
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(dim, dim, bias=False) for _ in range(4))

    def forward(self, x):
        q, k, v = (
            f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in (self.q_proj, self.k_proj, self.v_proj)
        )
        cos, sin = self.rotary(x.shape[1], x.dtype)
        q, k = q * cos + rotate(q) * sin, k * cos + rotate(k) * sin
        return self.out_proj(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return GPTJLikeAttention()


EXPECTED = {"kind": "rope-pairing", "severity": "error"}
CALL = {
    "attention": "causal",
    "layout": "BLD",
    "inputs": {"x": (2, 7, 32)},
    "mask": None,
    "causal": True,
    "position": "rope",
    "embed_dim": 32,
    "heads": 2,
    "head_dim": 16,
    "returns": "out",
}
