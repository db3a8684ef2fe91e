"""Memory-compressed attention: keys and values pass a strided convolution over time, padded at the end.

Kind: correct
"""

import torch.nn.functional as F
from torch import nn


class CompressedAttention(nn.Module):
    def __init__(self, dim=32, heads=4, factor=2):
        super().__init__()
        self.heads, self.factor = heads, factor
        self.q, self.kv, self.o = nn.Linear(dim, dim), nn.Linear(dim, 2 * dim), nn.Linear(dim, dim)
        self.compress = nn.Conv1d(2 * dim, 2 * dim, factor, stride=factor, groups=heads)

    def forward(self, x):
        n = x.shape[1]
        kv = F.pad(self.kv(x), (0, 0, 0, -n % self.factor))
        k, v = self.compress(kv.transpose(1, 2)).transpose(1, 2).chunk(2, -1)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (self.q(x), k, v))
        return self.o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return CompressedAttention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 8, 32)},
    "mask": None,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
