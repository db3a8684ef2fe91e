"""The windows are stacked window-major and viewed back batch-major: items of a batch are exchanged.

Kind: batch-cross-talk
"""

import torch
import torch.nn.functional as F
from torch import nn


class ChunkWindows(nn.Module):
    """x: [B, L, C], L a multiple of 4."""

    def __init__(self, dim=16, heads=2, w=4):
        super().__init__()
        self.w, self.heads, self.qkv, self.o = w, heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        B, L, C = x.shape
        t = torch.cat(x.split(self.w, dim=1), dim=0)
        q, k, v = self.qkv(t).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        t = self.o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return t.reshape(B, L, C)


def build() -> nn.Module:
    return ChunkWindows()


EXPECTED = {"kind": "batch-cross-talk", "severity": "error"}
CALL = {
    "attention": "window",
    "layout": "BLD",
    "inputs": {"x": (2, 12, 16)},
    "mask": None,
    "window": 4,
    "shift": 0,
    "embed_dim": 16,
    "heads": 2,
    "head_dim": 8,
    "returns": "out",
}
