"""Correct: a causal window of 3, but token 0 is seen by all.

Kind: correct
"""

import torch
import torch.nn.functional as F
from torch import nn


class StreamingSinkWindow(nn.Module):
    """StreamingLLM-like: the first token stays visible to every later one, besides a window of 3 (itself included)."""

    def __init__(self, dim=32, heads=4, window=3):
        super().__init__()
        self.heads, self.window, self.qkv, self.out = heads, window, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        T = x.shape[1]
        gap = torch.arange(T)[:, None] - torch.arange(T)
        keep = (gap >= 0) & ((gap < self.window) | (torch.arange(T) == 0))
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        return self.out(F.scaled_dot_product_attention(q, k, v, attn_mask=keep.to(x.device)).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return StreamingSinkWindow()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "window-off-by-one"}
CALL = {
    "attention": "causal",
    "layout": "BLD",
    "inputs": {"x": (2, 9, 32)},
    "mask": None,
    "causal": True,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
