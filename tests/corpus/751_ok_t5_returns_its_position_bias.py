"""Correct: T5 attention without a scale; log buckets; returns (out, present, position_bias).

Kind: correct
"""

import math

import torch
from torch import nn


class T5Attention(nn.Module):
    def __init__(self, d_model=32, d_kv=8, num_heads=4, buckets=8, max_distance=16):
        super().__init__()
        self.n_heads, self.d_kv, self.buckets, self.max_distance = num_heads, d_kv, buckets, max_distance
        inner = num_heads * d_kv
        self.q, self.k, self.v = (nn.Linear(d_model, inner, bias=False) for _ in range(3))
        self.o = nn.Linear(inner, d_model, bias=False)
        self.relative_attention_bias = nn.Embedding(buckets, num_heads)

    def bucket(self, relative):
        n, half = relative.abs(), self.buckets // 2
        exact = half // 2
        far = exact + (torch.log(n.clamp_min(1) / exact) / math.log(self.max_distance / exact) * (half - exact)).long()
        return (relative > 0).long() * half + torch.where(n < exact, n, far.clamp_max(half - 1))

    def forward(self, hidden_states, mask=None, position_bias=None, use_cache=False):
        """mask: additive, broadcast to [B, heads, T, T]; 0 = attend."""
        B, T, _ = hidden_states.shape
        q, k, v = (
            f(hidden_states).view(B, T, self.n_heads, self.d_kv).transpose(1, 2) for f in (self.q, self.k, self.v)
        )
        scores = torch.matmul(q, k.transpose(3, 2))
        if position_bias is None:
            relative = torch.arange(T)[None] - torch.arange(T)[:, None]
            position_bias = self.relative_attention_bias(self.bucket(relative)).permute(2, 0, 1).unsqueeze(0)
            if mask is not None:
                position_bias = position_bias + mask
        weights = nn.functional.softmax(scores + position_bias, dim=-1)
        out = self.o(torch.matmul(weights, v).transpose(1, 2).reshape(B, T, -1))
        return out, ((k, v) if use_cache else None), position_bias


def build() -> nn.Module:
    return T5Attention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "scale-missing"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"hidden_states": (2, 6, 32)},
    "position": "relative",
    "mask": {"arg": "mask", "shape": (2, 1, 1, 6), "on": "keys", "polarity": "additive", "dtype": "float"},
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "(out, cache, bias)",
    "declared_scale": 1.0,
}
