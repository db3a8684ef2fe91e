"""Correct: ALiBi for 12 heads, the closest power of two first and then every other slope of the next; causal.

Kind: correct
"""

import math

import torch
from torch import nn


def get_slopes(n):
    if math.log2(n).is_integer():
        start = 2 ** (-(2 ** -(math.log2(n) - 3)))
        return [start * start**i for i in range(n)]
    closest = 2 ** math.floor(math.log2(n))
    return get_slopes(closest) + get_slopes(2 * closest)[0::2][: n - closest]


class AlibiCausal(nn.Module):
    def __init__(self, dim=48, n_heads=12):
        super().__init__()
        self.n_heads = n_heads
        self.Wqkv, self.out_proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.register_buffer("slopes", torch.tensor(get_slopes(n_heads)).view(-1, 1, 1), persistent=False)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.Wqkv(x).chunk(3, dim=2)
        q, k, v = (t.reshape(B, T, self.n_heads, -1).permute(0, 2, 1, 3) for t in (q, k, v))
        bias = self.slopes.to(x.dtype) * torch.arange(1 - T, 1, device=x.device)
        s = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(q.shape[-1]) + bias
        s = s.masked_fill(~torch.ones(T, T, dtype=torch.bool, device=x.device).tril(), torch.finfo(s.dtype).min)
        return self.out_proj(torch.matmul(s.softmax(-1), v).permute(0, 2, 1, 3).reshape(B, T, C))


def build() -> nn.Module:
    return AlibiCausal()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "alibi-slopes"}
CALL = {
    "attention": "causal",
    "layout": "BLD",
    "inputs": {"x": (2, 7, 48)},
    "mask": None,
    "causal": True,
    "position": "alibi",
    "embed_dim": 48,
    "heads": 12,
    "head_dim": 4,
    "returns": "out",
}
