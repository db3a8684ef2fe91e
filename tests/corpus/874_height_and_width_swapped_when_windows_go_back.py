"""The number of windows per column and per row are swapped; maps that are not square are scrambled.

Kind: window-reverse
"""

import torch.nn.functional as F
from torch import nn


class WindowBlock(nn.Module):
    """x: (B, H, W, C), H and W multiples of the window."""

    def __init__(self, dim=16, heads=2, window=4):
        super().__init__()
        self.heads, self.window = heads, window
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        B, H, W, C = x.shape
        w = self.window
        t = x.view(B, H // w, w, W // w, w, C).permute(0, 1, 3, 2, 4, 5).reshape(-1, w * w, C)
        q, k, v = self.qkv(t).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        t = self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return t.view(B, W // w, H // w, w, w, C).permute(0, 1, 3, 2, 4, 5).reshape(B, H, W, C)


def build() -> nn.Module:
    return WindowBlock()


EXPECTED = {"kind": "window-reverse", "severity": "error"}
CALL = {
    "attention": "window",
    "layout": "BHWC",
    "inputs": {"x": (2, 4, 8, 16)},
    "mask": None,
    "window": 4,
    "embed_dim": 16,
    "heads": 2,
    "head_dim": 8,
    "returns": "out",
}
