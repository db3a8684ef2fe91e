"""Half of the channels come from the next token instead of the one before.

Kind: future-leak-nonattention
"""

import torch
import torch.nn.functional as F
from torch import nn


class ShiftedDecoderBlock(nn.Module):
    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads, self.norm = heads, nn.LayerNorm(dim)
        self.time_shift = nn.ZeroPad2d((0, 0, -1, 1))
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        y = self.norm(x)
        half = y.shape[-1] // 2
        y = torch.cat([self.time_shift(y[..., :half]), y[..., half:]], dim=-1)
        q, k, v = self.qkv(y).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.proj(y.transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return ShiftedDecoderBlock()


EXPECTED = {"kind": "future-leak-nonattention", "severity": "error"}
CALL = {
    "attention": "causal",
    "layout": "BLD",
    "inputs": {"x": (2, 6, 32)},
    "mask": None,
    "causal": True,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
