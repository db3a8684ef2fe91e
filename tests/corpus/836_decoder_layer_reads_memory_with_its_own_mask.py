"""The cross attention is called with the mask of the target; the one of the source is never read.

Kind: mask-wrong-source
"""

import torch.nn.functional as F
from torch import nn


class DecoderLayer(nn.Module):
    """tgt, memory: (batch, length, dim); tgt_mask, src_mask: (batch, length) bool, True = word."""

    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads = heads
        self.self_in, self.self_out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.cross_q, self.cross_kv, self.cross_out = nn.Linear(dim, dim), nn.Linear(dim, 2 * dim), nn.Linear(dim, dim)
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)

    def attend(self, q, k, v, mask):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (q, k, v))
        keep = None if mask is None else mask[:, None, None]
        return F.scaled_dot_product_attention(q, k, v, attn_mask=keep).transpose(1, 2).flatten(2)

    def forward(self, tgt, memory, tgt_mask=None, src_mask=None):
        tgt = self.n1(tgt + self.self_out(self.attend(*self.self_in(tgt).chunk(3, -1), tgt_mask)))
        k, v = self.cross_kv(memory).chunk(2, -1)
        return self.n2(tgt + self.cross_out(self.attend(self.cross_q(tgt), k, v, tgt_mask)))


def build() -> nn.Module:
    return DecoderLayer()


EXPECTED = {"kind": "mask-wrong-source", "severity": "error"}
CALL = {
    "attention": "cross",
    "layout": "BLD",
    "inputs": {"tgt": (2, 6, 32), "memory": (2, 6, 32)},
    "mask": {"arg": "src_mask", "shape": (2, 6), "on": "memory", "polarity": "keep", "dtype": "bool"},
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
