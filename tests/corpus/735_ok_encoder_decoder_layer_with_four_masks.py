"""Correct: a pre-norm decoder layer with causal self attention and cross attention, each with its own padding mask.

Kind: correct
"""

import torch
from torch import nn


class Sublayer(nn.Module):
    def __init__(self, size, dropout):
        super().__init__()
        self.norm, self.dropout = nn.LayerNorm(size), nn.Dropout(dropout)

    def forward(self, x, f):
        return x + self.dropout(f(self.norm(x)))


class TransformerDecoderLayer(nn.Module):
    """tgt_key_padding_mask [B, T], memory_key_padding_mask [B, S]: bool, True = padding."""

    def __init__(self, size=32, heads=4, dropout=0.1):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(size, heads, batch_first=True)
        self.src_attn = nn.MultiheadAttention(size, heads, batch_first=True)
        self.ff = nn.Sequential(nn.Linear(size, 2 * size), nn.GELU(), nn.Linear(2 * size, size))
        self.sublayer = nn.ModuleList(Sublayer(size, dropout) for _ in range(3))

    def forward(self, tgt, memory, tgt_key_padding_mask=None, memory_key_padding_mask=None):
        T = tgt.size(1)
        future = torch.ones(T, T, dtype=torch.bool, device=tgt.device).triu(1)

        def look(y):
            return self.self_attn(y, y, y, attn_mask=future, key_padding_mask=tgt_key_padding_mask, need_weights=False)[
                0
            ]

        def read(y):
            return self.src_attn(y, memory, memory, key_padding_mask=memory_key_padding_mask, need_weights=False)[0]

        x = self.sublayer[0](tgt, look)
        x = self.sublayer[1](x, read)
        return self.sublayer[2](x, self.ff)


def build() -> nn.Module:
    return TransformerDecoderLayer()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "mask-wrong-source"}
CALL = {
    "attention": "cross",
    "layout": "BLD",
    "inputs": {"tgt": (2, 5, 32), "memory": (2, 7, 32)},
    "query_arg": "tgt",
    "context_arg": "memory",
    "mask": {"arg": "memory_key_padding_mask", "shape": (2, 7), "on": "context", "polarity": "ignore", "dtype": "bool"},
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
    "dropout": 0.1,
}
