"""Correct: half of a conformer; attention hides padding, the convolution sees zeros there.

Kind: correct
"""

import torch.nn.functional as F
from torch import nn


class ConformerHalf(nn.Module):
    """mask: bool [B, T], True = frame is real."""

    def __init__(self, dim=32, heads=4, kernel=5):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(dim), nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.up, self.down = nn.Linear(dim, 2 * dim), nn.Linear(dim, dim)
        self.depthwise = nn.Conv1d(dim, dim, kernel, padding=kernel // 2, groups=dim)

    def forward(self, x, mask=None):
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        keep = None if mask is None else mask[:, None, None]
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, attn_mask=keep).transpose(1, 2).flatten(2))
        y = F.glu(self.up(self.norm2(x)), dim=-1)
        if mask is not None:
            y = y * mask.unsqueeze(-1)
        y = self.depthwise(y.transpose(1, 2)).transpose(1, 2)
        return x + self.down(F.silu(self.norm3(y)))


def build() -> nn.Module:
    return ConformerHalf()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "padding-leak-nonattention"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 8, 32)},
    "mask": {"arg": "mask", "shape": (2, 8), "on": "keys", "polarity": "keep", "dtype": "bool"},
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
