"""start() forgets the words that were spoken and the keys of the source; both are kept while live=True.

Kind: correct
"""

import torch
import torch.nn.functional as F
from torch import nn


class TranslatorLayer(nn.Module):
    """Pre-norm; with live=True the words come a few at a time. start() comes before the next sentence."""

    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.ask_self, self.tell_self, self.out_self = self.trio(width)
        self.ask_source, self.tell_source, self.out_source = self.trio(width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))
        self.start()

    @staticmethod
    def trio(width):
        return nn.Linear(width, width), nn.Linear(width, 2 * width), nn.Linear(width, width)

    def start(self):
        self.spoken = self.source_kv = None

    def look(self, q, kv, keep=None):
        q, k, v = (t.unflatten(2, (self.heads, -1)).transpose(1, 2) for t in (q, *kv.chunk(2, dim=2)))
        return F.scaled_dot_product_attention(q, k, v, attn_mask=keep).transpose(1, 2).flatten(2)

    def forward(self, words, source, live=False):
        y = self.norms[0](words)
        kv, told = self.tell_self(y), None
        if live:
            kv = kv if self.spoken is None else torch.cat([self.spoken, kv], dim=1)
            self.spoken = kv.detach()
            if self.source_kv is None:
                self.source_kv = self.tell_source(source).detach()
            told = self.source_kv
        n, m = words.shape[1], kv.shape[1]
        words = words + self.out_self(self.look(self.ask_self(y), kv, torch.ones(n, m, dtype=torch.bool).tril(m - n)))
        told = self.tell_source(source) if told is None else told
        words = words + self.out_source(self.look(self.ask_source(self.norms[1](words)), told))
        return words + self.mlp(self.norms[2](words))


def build() -> nn.Module:
    return TranslatorLayer()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "cache-stale"}
CALL = {
    "attention": "kv-cache",
    "layout": "BLD",
    "inputs": {"words": (2, 6, 32), "source": (2, 5, 32)},
    "query_arg": "words",
    "context_arg": "source",
    "mask": None,
    "causal": True,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
    "cache": {"style": "internal", "arg": "live", "reset": "start"},
}
