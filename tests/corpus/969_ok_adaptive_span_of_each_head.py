"""Adaptive span: a soft ramp over the distance multiplies the weights, which are normalised again.

Kind: correct
"""

import torch
from torch import nn


class AdaptiveSpanAttention(nn.Module):
    def __init__(self, dim=32, heads=4, max_span=16, ramp=4):
        super().__init__()
        self.heads, self.max_span, self.ramp = heads, max_span, ramp
        self.span = nn.Parameter(torch.linspace(0.3, 0.9, heads).view(heads, 1, 1))
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        n = x.shape[1]
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        i = torch.arange(n, device=x.device)
        gap = (i[:, None] - i).to(x)
        soft = ((self.span * self.max_span - gap) / self.ramp + 1).clamp(0, 1)
        s = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(gap < 0, float("-inf"))
        w = s.softmax(-1) * soft
        w = w / (w.sum(-1, keepdim=True) + 1e-8)
        return self.proj((w @ v).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return AdaptiveSpanAttention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "causal",
    "layout": "BLD",
    "inputs": {"x": (2, 8, 32)},
    "mask": None,
    "causal": True,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
