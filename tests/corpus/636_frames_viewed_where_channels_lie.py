"""(B, C, T) is viewed as (B, T, C) behind a norm: a row is a piece of one channel's time.

Kind: spatial-layout-scramble
"""

import torch.nn.functional as F
from torch import nn


class FrameAttention(nn.Module):
    """(batch, channels, frames) -> the same, normalised in groups of channels first."""

    def __init__(self, channels=20, heads=2):
        super().__init__()
        self.heads = heads
        self.norm = nn.GroupNorm(2, channels)
        self.qkv = nn.Linear(channels, 3 * channels)
        self.out = nn.Linear(channels, channels)

    def forward(self, frames):
        B, C, T = frames.shape
        q, k, v = self.qkv(self.norm(frames).view(B, T, C)).chunk(3, -1)
        q, k, v = (t.view(B, T, self.heads, -1).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(B, T, C)
        return frames + self.out(y).transpose(1, 2)


def build() -> nn.Module:
    return FrameAttention()


EXPECTED = {"kind": "spatial-layout-scramble", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BCL",
    "inputs": {"frames": (2, 20, 6)},
    "mask": None,
    "embed_dim": 20,
    "heads": 2,
    "head_dim": 10,
    "returns": "out",
}
