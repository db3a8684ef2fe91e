"""Correct: full attention whose result counts in proportion to the place, so that identical tokens give a straight ramp.

Kind: correct
"""

import torch
import torch.nn.functional as F
from torch import nn


class FadeIn(nn.Module):
    """The later a token stands in the clip, the more it takes from the others: place / length of it."""

    def __init__(self, dim=16, heads=2):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, clip):
        B, T, C = clip.shape
        q, k, v = self.qkv(clip).view(B, T, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(B, T, C)
        share = torch.arange(1, T + 1, device=clip.device, dtype=clip.dtype) / T
        return self.out(y * share[:, None])


def build() -> nn.Module:
    return FadeIn()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "linear-normaliser-wrong"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"clip": (2, 7, 16)},
    "mask": None,
    "embed_dim": 16,
    "heads": 2,
    "head_dim": 8,
    "returns": "out",
}
