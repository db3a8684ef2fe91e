"""`src += pos` changes the tensor of the caller, each call adds the positions again.

Kind: input-mutated
"""

import torch
from torch import nn


class PositionedEncoder(nn.Module):
    def __init__(self, dim=32, heads=4, max_len=64):
        super().__init__()
        self.pos_embed = nn.Parameter(torch.randn(1, max_len, dim))
        self.attn, self.norm = nn.MultiheadAttention(dim, heads, batch_first=True), nn.LayerNorm(dim)

    def forward(self, src):
        src += self.pos_embed[:, : src.size(1)]
        y = self.norm(src)
        return src + self.attn(y, y, y, need_weights=False)[0]


def build() -> nn.Module:
    return PositionedEncoder()


EXPECTED = {"kind": "input-mutated", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"src": (2, 6, 32)},
    "mask": None,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
