"""The layer norm takes its statistics over the time axis too, padding included.

Kind: padding-leak-nonattention
"""

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x, lengths):
        """x: (batch, time, dim), lengths: (batch,) number of frames"""
        y = F.layer_norm(x, x.shape[1:])
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(y).chunk(3, -1))
        keep = torch.arange(x.shape[1], device=x.device) < lengths[:, None]
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=keep[:, None, None])
        return x + self.proj(y.transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return Block()


EXPECTED = {"kind": "padding-leak-nonattention", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 6, 32)},
    "mask": {"arg": "lengths", "shape": (2,), "on": "keys", "polarity": "lengths", "dtype": "long"},
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
