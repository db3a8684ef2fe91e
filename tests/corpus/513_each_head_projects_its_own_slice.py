"""The embedding is cut into heads first, and one head_dim x head_dim Linear serves every slice.

Kind: heads-not-independent
"""

import torch
import torch.nn as nn


class SelfAttention(nn.Module):
    """mask: [N, 1, 1, L], 0 = padding."""

    def __init__(self, embed_size=32, heads=4):
        super().__init__()
        self.embed_size = embed_size
        self.heads = heads
        self.head_dim = embed_size // heads
        self.values = nn.Linear(self.head_dim, self.head_dim, bias=False)
        self.keys = nn.Linear(self.head_dim, self.head_dim, bias=False)
        self.queries = nn.Linear(self.head_dim, self.head_dim, bias=False)
        self.fc_out = nn.Linear(heads * self.head_dim, embed_size)

    def forward(self, values, keys, query, mask=None):
        N = query.shape[0]
        value_len, key_len, query_len = values.shape[1], keys.shape[1], query.shape[1]
        values = self.values(values.reshape(N, value_len, self.heads, self.head_dim))
        keys = self.keys(keys.reshape(N, key_len, self.heads, self.head_dim))
        queries = self.queries(query.reshape(N, query_len, self.heads, self.head_dim))
        energy = torch.einsum("nqhd,nkhd->nhqk", [queries, keys])
        if mask is not None:
            energy = energy.masked_fill(mask == 0, float("-1e20"))
        attention = torch.softmax(energy / (self.head_dim ** (1 / 2)), dim=3)
        out = torch.einsum("nhql,nlhd->nqhd", [attention, values]).reshape(N, query_len, self.heads * self.head_dim)
        return self.fc_out(out)


def build() -> nn.Module:
    return SelfAttention()


EXPECTED = {"kind": "heads-not-independent", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"query": (2, 6, 32), "keys": "query", "values": "query"},
    "mask": {"arg": "mask", "shape": (2, 1, 1, 6), "on": "keys", "polarity": "keep", "dtype": "long"},
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
