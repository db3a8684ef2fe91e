"""ReLU features without an epsilon: a query whose features are all zero divides 0 by 0.

Kind: linear-normaliser-zero
"""

import torch
from torch import nn


class LiteMLA(nn.Module):
    """EfficientViT-like: images [B, C, H, W], narrow heads."""

    def __init__(self, channels=16, dim=2):
        super().__init__()
        self.dim, self.heads = dim, channels // dim
        self.qkv = nn.Conv2d(channels, 3 * channels, 1, bias=False)
        self.proj = nn.Conv2d(channels, channels, 1, bias=False)

    def forward(self, x):
        B, C, H, W = x.shape
        q, k, v = self.qkv(x).reshape(B, self.heads, 3 * self.dim, H * W).transpose(-1, -2).chunk(3, -1)
        q, k = torch.relu(q), torch.relu(k)
        v = torch.nn.functional.pad(v, (0, 1), value=1.0)
        out = q @ (k.transpose(-1, -2) @ v)
        out = out[..., :-1] / out[..., -1:]
        return self.proj(out.transpose(-1, -2).reshape(B, C, H, W))


def build() -> nn.Module:
    return LiteMLA()


EXPECTED = {"kind": "linear-normaliser-zero", "severity": "error"}
CALL = {
    "attention": "linear",
    "layout": "BCHW",
    "inputs": {"x": (2, 16, 4, 5)},
    "mask": None,
    "embed_dim": 16,
    "heads": 8,
    "head_dim": 2,
    "returns": "out",
}
