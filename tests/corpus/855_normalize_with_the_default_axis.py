"""`F.normalize` works on axis 1 unless told otherwise, and axis 1 is the heads here.

Kind: qknorm-wrong
"""

import torch
import torch.nn.functional as F
from torch import nn


class CosineAttention(nn.Module):
    """Cosine attention: q and k are unit vectors, the temperature is learned per head."""

    def __init__(self, dim=32, num_heads=4):
        super().__init__()
        self.num_heads = num_heads
        self.logit_scale = nn.Parameter(torch.full((num_heads, 1, 1), 10.0))
        self.qkv, self.proj = nn.Linear(dim, dim * 3, bias=False), nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        q, k, v = self.qkv(x).reshape(B, N, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        attn = F.normalize(q) @ F.normalize(k).transpose(-2, -1) * self.logit_scale
        return self.proj((attn.softmax(-1) @ v).transpose(1, 2).reshape(B, N, C))


def build() -> nn.Module:
    return CosineAttention()


EXPECTED = {"kind": "qknorm-wrong", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 6, 32)},
    "mask": None,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
