"""`sliding_window` keys including the token itself are promised; `triu(-sliding_window)` leaves one more.

Kind: window-off-by-one
"""

import torch
import torch.nn.functional as F
from torch import nn


class SlidingWindowAttention(nn.Module):
    """Each token attends to the last `sliding_window` tokens, itself included."""

    def __init__(self, dim=32, heads=4, sliding_window=4):
        super().__init__()
        self.heads, self.sliding_window = heads, sliding_window
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        n = x.shape[1]
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        band = torch.ones(n, n, dtype=torch.bool, device=x.device).tril().triu(-self.sliding_window)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=band)
        return self.proj(y.transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return SlidingWindowAttention()


EXPECTED = {"kind": "window-off-by-one", "severity": "error"}
CALL = {
    "attention": "causal",
    "layout": "BLD",
    "inputs": {"x": (2, 14, 32)},
    "mask": None,
    "causal": True,
    "window": 4,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
