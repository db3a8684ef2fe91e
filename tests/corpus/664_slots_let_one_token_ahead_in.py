"""Slots for two texts; the table of what is visible lets the next slot in.

Kind: causal-off-by-one
"""

import torch
import torch.nn.functional as F
from torch import nn


class Slots(nn.Module):
    """Keys and values of two texts at most, in slots that are made once."""

    def __init__(self, texts, slots, heads, width):
        super().__init__()
        self.register_buffer("k", torch.zeros(texts, heads, slots, width))
        self.register_buffer("v", torch.zeros(texts, heads, slots, width))

    def update(self, places, k, v):
        self.k[: len(k), :, places], self.v[: len(v), :, places] = k.detach(), v.detach()
        return self.k[: len(k)], self.v[: len(v)]


class Attention(nn.Module):
    """x: (texts, tokens, dim); input_pos: (tokens,) long, where they stand. Call setup_caches before the first token."""

    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads, self.cache = heads, None
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def setup_caches(self, max_batch_size, max_seq_length):
        width = self.out.in_features // self.heads
        self.cache = Slots(max_batch_size, max_seq_length, self.heads, width)
        self.register_buffer("visible", torch.ones(max_seq_length, max_seq_length).tril(diagonal=1).bool())

    def forward(self, x, input_pos):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        k, v = self.cache.update(input_pos, k, v)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=self.visible[input_pos])
        return self.out(y.transpose(1, 2).flatten(2))


def build() -> nn.Module:
    made = Attention()
    made.setup_caches(2, 24)
    return made


EXPECTED = {"kind": "causal-off-by-one", "severity": "error"}
CALL = {
    "attention": "causal",
    "layout": "BLD",
    "inputs": {"x": (2, 6, 32)},
    "mask": None,
    "cache": "slots",
    "returns": "out",
}
