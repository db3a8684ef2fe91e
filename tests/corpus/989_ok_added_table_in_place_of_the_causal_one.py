"""No table means causal; a table that is given is added as it is and stands for everything, causality included.

Kind: correct
"""

import torch.nn.functional as F
from torch import nn


class TableAttention(nn.Module):
    """`table`: float, (batch, 1, queries, keys), 0 where a key is seen and a large negative number elsewhere."""

    def __init__(self, hidden=32, heads=4):
        super().__init__()
        self.heads, self.qkv, self.o = (
            heads,
            nn.Linear(hidden, 3 * hidden, bias=False),
            nn.Linear(hidden, hidden, bias=False),
        )

    def forward(self, states, table=None):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(states).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=table, is_causal=table is None)
        return self.o(y.transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return TableAttention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "causal-missing"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"states": (2, 6, 32)},
    "mask": None,
    "causal": True,
    "window": None,
    "position": None,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "tensor",
    "cache": None,
}
