"""Without a mask the fused kernel scales; the explicit branch for masks does not.

Kind: path-mismatch
"""

import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads, self.qkv, self.proj = heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        """mask: (b, n) bool, True marks tokens to attend to"""
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        if mask is None:
            y = F.scaled_dot_product_attention(q, k, v)
        else:
            s = (q @ k.transpose(-1, -2)).masked_fill(~mask[:, None, None], torch.finfo(q.dtype).min)
            y = s.softmax(dim=-1) @ v
        return self.proj(y.transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return Attention()


EXPECTED = {"kind": "path-mismatch", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 6, 32)},
    "mask": {"arg": "mask", "shape": (2, 6), "on": "keys", "polarity": "keep", "dtype": "bool"},
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
