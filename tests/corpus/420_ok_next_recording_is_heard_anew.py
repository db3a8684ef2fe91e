"""clear() drops what was written so far and what was heard; decode_step takes one word and no mask.

Kind: correct
"""

import torch
import torch.nn.functional as F
from torch import nn


class Scribe(nn.Module):
    """forward writes a whole text beside a recording; decode_step takes one new word, after clear() for each recording."""

    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.read, self.hear_q = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.hear_k, self.hear_v = nn.Linear(width, width), nn.Linear(width, width)
        self.mix = nn.ModuleList(nn.Linear(width, width) for _ in range(2))
        self.heard = {}
        self.clear()

    def clear(self):
        self.written = None
        self.heard.clear()

    def cut(self, t):
        return t.unflatten(-1, (self.heads, -1)).movedim(2, 1)

    def layer(self, text, kv, heard, keep):
        q = self.cut(self.read(text).chunk(3, -1)[0])
        k, v = (self.cut(t) for t in kv.chunk(2, -1))
        y = text + self.mix[0](F.scaled_dot_product_attention(q, k, v, attn_mask=keep).movedim(1, 2).flatten(2))
        y2 = F.scaled_dot_product_attention(self.cut(self.hear_q(y)), *heard)
        return y + self.mix[1](y2.movedim(1, 2).flatten(2))

    def listen(self, recording):
        return self.cut(self.hear_k(recording)), self.cut(self.hear_v(recording))

    def forward(self, text, recording):
        n = text.shape[1]
        kv = self.read(text)[..., text.shape[-1] :]
        return self.layer(text, kv, self.listen(recording), torch.ones(n, n, dtype=torch.bool).tril())

    def decode_step(self, text, recording):
        kv = self.read(text)[..., text.shape[-1] :]
        self.written = kv if self.written is None else torch.cat([self.written, kv], dim=1)
        if "kv" not in self.heard:
            self.heard["kv"] = self.listen(recording)
        return self.layer(text, self.written, self.heard["kv"], None)


def build() -> nn.Module:
    return Scribe()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "cache-stale"}
CALL = {
    "attention": "kv-cache",
    "layout": "BLD",
    "inputs": {"text": (2, 6, 32), "recording": (2, 5, 32)},
    "query_arg": "text",
    "context_arg": "recording",
    "mask": None,
    "causal": True,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
    "cache": {"style": "internal", "reset": "clear"},
}
