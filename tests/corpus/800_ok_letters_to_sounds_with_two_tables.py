"""Letters are read by an encoder, sounds written by a decoder; there are a few sounds less than letters, and a table for each.

Kind: correct
"""

import torch.nn.functional as F
from torch import nn


class Heads(nn.Module):
    def __init__(self, size, heads):
        super().__init__()
        self.heads = heads
        self.q, self.kv, self.o = nn.Linear(size, size), nn.Linear(size, 2 * size), nn.Linear(size, size)

    def forward(self, x, c, causal=False):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (self.q(x), *self.kv(c).chunk(2, -1)))
        return self.o(F.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2).flatten(2))


class Speller(nn.Module):
    """letters (batch, n) below 30, sounds (batch, m) below 26 -> (batch, m, 26)."""

    def __init__(self, letters=30, sounds=26, size=32, heads=4):
        super().__init__()
        self.letter, self.sound = nn.Embedding(letters, size), nn.Embedding(sounds, size)
        self.reads, self.writes, self.looks = Heads(size, heads), Heads(size, heads), Heads(size, heads)
        self.norm = nn.ModuleDict({name: nn.LayerNorm(size) for name in ("reads", "writes", "looks", "says")})
        self.says = nn.Linear(size, sounds)

    def encode(self, letters):
        h = self.letter(letters)
        y = self.norm["reads"](h)
        return h + self.reads(y, y)

    def forward(self, letters, sounds):
        memory, h = self.encode(letters), self.sound(sounds)
        y = self.norm["writes"](h)
        h = h + self.writes(y, y, causal=True)
        h = h + self.looks(self.norm["looks"](h), memory)
        return self.says(self.norm["says"](h))


def build() -> nn.Module:
    return Speller()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "cross",
    "layout": "BL",
    "inputs": {"letters": (2, 9), "sounds": (2, 6)},
    "query_arg": "sounds",
    "context_arg": "letters",
    "mask": None,
    "causal": True,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
