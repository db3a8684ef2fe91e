"""A decoder with a sliding window hides |i - j| >= w only: the w - 1 next tokens are visible.

Kind: window-symmetric
"""

import torch
from torch import nn


class SlidingWindowDecoder(nn.Module):
    """Causal: a token sees itself and the window - 1 tokens before it."""

    def __init__(self, dim=32, heads=4, window=3):
        super().__init__()
        self.heads, self.window = heads, window
        self.norm, self.qkv, self.out = nn.LayerNorm(dim), nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        r = torch.arange(x.size(1), device=x.device)
        far = (r[:, None] - r[None]).abs() >= self.window
        s = (q @ k.mT / q.size(-1) ** 0.5).masked_fill(far, float("-inf"))
        return x + self.out((s.softmax(-1) @ v).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return SlidingWindowDecoder()


EXPECTED = {"kind": "window-symmetric", "severity": "error"}
CALL = {
    "attention": "causal",
    "layout": "BLD",
    "inputs": {"x": (2, 9, 32)},
    "mask": None,
    "causal": True,
    "window": 3,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
