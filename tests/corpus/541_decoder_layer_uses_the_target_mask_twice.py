"""A decoder layer hides target padding in the memory, and never reads memory_pad.

Kind: mask-wrong-source
"""

import torch
from torch import nn


class DecoderLayer(nn.Module):
    """tgt_pad, memory_pad: bool [B, T] and [B, S], True = padding."""

    def __init__(self, d=32, heads=4):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(d, heads, batch_first=True)
        self.cross_attn = nn.MultiheadAttention(d, heads, batch_first=True)
        self.n1, self.n2, self.n3 = nn.LayerNorm(d), nn.LayerNorm(d), nn.LayerNorm(d)
        self.ff = nn.Sequential(nn.Linear(d, 2 * d), nn.ReLU(), nn.Linear(2 * d, d))

    def forward(self, tgt, memory, tgt_pad=None, memory_pad=None):
        T = tgt.size(1)
        causal = torch.ones(T, T, dtype=torch.bool, device=tgt.device).triu(1)
        y = self.n1(tgt)
        tgt = tgt + self.self_attn(y, y, y, attn_mask=causal, key_padding_mask=tgt_pad, need_weights=False)[0]
        y = self.n2(tgt)
        tgt = tgt + self.cross_attn(y, memory, memory, key_padding_mask=tgt_pad, need_weights=False)[0]
        return tgt + self.ff(self.n3(tgt))


def build() -> nn.Module:
    return DecoderLayer()


EXPECTED = {"kind": "mask-wrong-source", "severity": "error"}
CALL = {
    "attention": "cross",
    "layout": "BLD",
    "inputs": {"tgt": (2, 6, 32), "memory": (2, 6, 32)},
    "query_arg": "tgt",
    "context_arg": "memory",
    "mask": {"arg": "memory_pad", "shape": (2, 6), "on": "context", "polarity": "ignore", "dtype": "bool"},
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
