"""Above `chunk` tokens queries are processed in pieces, and the pieces see all keys.

Kind: causal-missing
"""

import torch
import torch.nn.functional as F
from torch import nn


class CausalAttention(nn.Module):
    def __init__(self, dim=32, heads=4, chunk=16):
        super().__init__()
        self.heads, self.chunk = heads, chunk
        self.qkv, self.o = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        if x.shape[1] <= self.chunk:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            y = torch.cat([F.scaled_dot_product_attention(part, k, v) for part in q.split(self.chunk, 2)], 2)
        return self.o(y.transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return CausalAttention()


EXPECTED = {"kind": "causal-missing", "severity": "error"}
CALL = {
    "attention": "causal",
    "layout": "BLD",
    "inputs": {"x": (2, 20, 32)},
    "mask": None,
    "causal": True,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
