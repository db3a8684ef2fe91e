"""A language model whose layers attend through CausalGroupedQueryAttention, and nothing in it hides the future.

Kind: causal-missing
"""

import torch
from torch import nn


class CausalGroupedQueryAttention(nn.Module):
    def __init__(self, size, heads, kv_heads):
        super().__init__()
        self.heads, self.kv_heads, each = heads, kv_heads, size // heads
        self.ask, self.answer = nn.Linear(size, size), nn.Linear(size, 2 * kv_heads * each)
        self.blend = nn.Linear(size, size)

    def forward(self, h):
        q = self.ask(h).unflatten(2, (self.kv_heads, self.heads // self.kv_heads, -1))
        k, v = self.answer(h).unflatten(2, (2, self.kv_heads, -1)).unbind(2)
        w = torch.einsum("btgrc,bsgc->bgrts", q, k).mul(q.shape[-1] ** -0.5).softmax(-1)
        return self.blend(torch.einsum("bgrts,bsgc->btgrc", w, v).flatten(2))


class NextWord(nn.Module):
    """words (batch, n), integer, at most 32 of them -> (batch, n, words of the vocabulary)."""

    def __init__(self, words=60, size=32, heads=4, kv_heads=2, layers=2, longest=32):
        super().__init__()
        self.word, self.place = nn.Embedding(words, size), nn.Embedding(longest, size)
        self.mixers = nn.ModuleList(CausalGroupedQueryAttention(size, heads, kv_heads) for _ in range(layers))
        self.feeds = nn.ModuleList(
            nn.Sequential(nn.Linear(size, 64), nn.GELU(), nn.Linear(64, size)) for _ in range(layers)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(size) for _ in range(2 * layers))

    def forward(self, words):
        h = self.word(words) + self.place.weight[: words.shape[1]]
        for i, (mixer, feed) in enumerate(zip(self.mixers, self.feeds, strict=True)):
            h = h + mixer(self.norms[2 * i](h))
            h = h + feed(self.norms[2 * i + 1](h))
        return h @ self.word.weight.T


def build() -> nn.Module:
    return NextWord()


EXPECTED = {"kind": "causal-missing", "severity": "error"}
CALL = {
    "attention": "causal",
    "layout": "BL",
    "inputs": {"words": (2, 8)},
    "mask": None,
    "causal": True,
    "position": "learned",
    "embed_dim": 32,
    "heads": 4,
    "kv_heads": 2,
    "head_dim": 8,
    "returns": "out",
}
