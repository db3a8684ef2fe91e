"""The ALiBi bias is +slope * distance: far keys are preferred.

Kind: alibi-sign
"""

import torch
from torch import nn


class AlibiAttention(nn.Module):
    def __init__(self, d_model=32, num_heads=4):
        super().__init__()
        self.num_heads = num_heads
        self.kqv, self.proj = nn.Linear(d_model, 3 * d_model, bias=False), nn.Linear(d_model, d_model)
        self.register_buffer("m", (2**8) ** (-(torch.arange(num_heads) + 1.0) / num_heads), persistent=False)

    def forward(self, x):
        B, T, C = x.shape
        key, query, value = (t.view(B, T, self.num_heads, -1).transpose(1, 2) for t in self.kqv(x).chunk(3, dim=-1))
        rel = torch.arange(T)[:, None] - torch.arange(T)[None, :]
        bias = self.m[:, None, None].to(x.dtype) * rel
        score = query @ key.transpose(-1, -2) / (C // self.num_heads) ** 0.5 + bias
        score = score.masked_fill(rel < 0, float("-inf"))
        return self.proj((score.softmax(-1) @ value).transpose(1, 2).reshape(B, T, C))


def build() -> nn.Module:
    return AlibiAttention()


EXPECTED = {"kind": "alibi-sign", "severity": "error"}
CALL = {
    "attention": "causal",
    "layout": "BLD",
    "inputs": {"x": (2, 7, 32)},
    "mask": None,
    "causal": True,
    "position": "alibi",
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
