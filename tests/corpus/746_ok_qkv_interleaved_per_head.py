"""Correct: NeoX layout, each head's q, k and v lie side by side in the fused projection.

Kind: correct
"""

import torch
from torch import nn


class NeoXAttention(nn.Module):
    def __init__(self, hidden=32, heads=4):
        super().__init__()
        self.heads = heads
        self.query_key_value, self.dense = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)

    def forward(self, hidden_states):
        B, T, C = hidden_states.shape
        q, k, v = self.query_key_value(hidden_states).view(B, T, self.heads, 3 * C // self.heads).chunk(3, dim=-1)
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.dense(out.transpose(1, 2).reshape(B, T, C))


def build() -> nn.Module:
    return NeoXAttention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "head-split-order"}
CALL = {
    "attention": "causal",
    "layout": "BLD",
    "inputs": {"hidden_states": (2, 6, 32)},
    "mask": None,
    "causal": True,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
