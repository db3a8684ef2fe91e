"""Correct: one learned sink logit per head joins the softmax and is dropped afterwards. Causal, window of 4.

Kind: correct
"""

import torch
from torch import nn


class SinkAttention(nn.Module):
    def __init__(self, hidden_size=32, num_heads=4, sliding_window=4):
        super().__init__()
        self.num_heads, self.sliding_window = num_heads, sliding_window
        self.sinks = nn.Parameter(torch.randn(num_heads))
        self.qkv, self.o = nn.Linear(hidden_size, 3 * hidden_size), nn.Linear(hidden_size, hidden_size)

    def forward(self, x):
        """Each token sees itself and the sliding_window - 1 tokens before it."""
        B, T, _ = x.shape
        q, k, v = self.qkv(x).view(B, T, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        s = torch.einsum("bhqd,bhkd->bhqk", q, k) * q.shape[-1] ** -0.5
        gap = torch.arange(T)[:, None] - torch.arange(T)[None]
        s = s.masked_fill((gap < 0) | (gap >= self.sliding_window), -torch.inf)
        s = torch.cat([s, self.sinks.view(1, -1, 1, 1).expand(B, -1, T, 1)], dim=-1)
        w = torch.softmax(s, dim=-1)[..., :-1]
        return self.o(torch.einsum("bhqk,bhkd->bqhd", w, v).reshape(B, T, -1))


def build() -> nn.Module:
    return SinkAttention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "rows-not-one"}
CALL = {
    "attention": "causal",
    "layout": "BLD",
    "inputs": {"x": (2, 9, 32)},
    "mask": None,
    "causal": True,
    "window": 4,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
    "row_sum": "<=1",
}
