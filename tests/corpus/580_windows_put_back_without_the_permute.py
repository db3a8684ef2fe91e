"""Windows are viewed straight back into the image: rows of windows are scattered.

Kind: window-reverse
"""

import torch.nn.functional as F
from torch import nn


class LocalWindows(nn.Module):
    def __init__(self, dim=8, window=2, heads=2):
        super().__init__()
        self.window, self.heads = window, heads
        self.to_qkv, self.to_out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        """x: [B, H, W, C]."""
        B, H, W, C = x.shape
        w = self.window
        t = x.view(B, H // w, w, W // w, w, C).permute(0, 1, 3, 2, 4, 5).reshape(-1, w * w, C)
        q, k, v = self.to_qkv(t).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        t = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return x + self.to_out(t).view(B, H, W, C)


def build() -> nn.Module:
    return LocalWindows()


EXPECTED = {"kind": "window-reverse", "severity": "error"}
CALL = {
    "attention": "window",
    "layout": "BHWC",
    "inputs": {"x": (1, 4, 6, 8)},
    "mask": None,
    "window": 2,
    "embed_dim": 8,
    "heads": 2,
    "head_dim": 4,
    "returns": "out",
}
