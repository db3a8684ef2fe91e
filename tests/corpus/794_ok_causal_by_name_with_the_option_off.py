"""The class inside is called CausalSoftmaxAttention and has an option for it, which this model of whole sentences switches off.

Kind: correct
"""

import torch.nn.functional as F
from torch import nn


class CausalSoftmaxAttention(nn.Module):
    def __init__(self, size, heads, causal=True):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.all_three, self.join = nn.Linear(size, 3 * size, bias=False), nn.Linear(size, size)

    def forward(self, h):
        q, k, v = self.all_three(h).unflatten(-1, (self.heads, 3, -1)).permute(3, 0, 2, 1, 4)
        return self.join(F.scaled_dot_product_attention(q, k, v, is_causal=self.causal).transpose(1, 2).flatten(2))


class SentenceReader(nn.Module):
    """ids (batch, n) -> (batch, n, size)."""

    def __init__(self, ids=45, size=30, heads=5):
        super().__init__()
        self.table = nn.Embedding(ids, size)
        self.layers = nn.ModuleList(CausalSoftmaxAttention(size, heads, causal=False) for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(size) for _ in range(2))

    def forward(self, ids):
        h = self.table(ids)
        for layer, norm in zip(self.layers, self.norms, strict=True):
            h = h + layer(norm(h))
        return h


def build() -> nn.Module:
    return SentenceReader()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "causal-missing"}
CALL = {
    "attention": "self",
    "layout": "BL",
    "inputs": {"ids": (2, 7)},
    "mask": None,
    "causal": False,
    "embed_dim": 30,
    "heads": 5,
    "head_dim": 6,
    "returns": "out",
}
