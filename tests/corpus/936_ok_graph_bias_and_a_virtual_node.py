"""A bias per head and pair from the outside, added after the scaling, and padding of nodes.

Kind: correct
"""

import torch
from torch import nn


class GraphormerAttention(nn.Module):
    def __init__(self, hidden_size=32, num_heads=4):
        super().__init__()
        self.num_heads, self.att_size = num_heads, hidden_size // num_heads
        self.linear_q, self.linear_k, self.linear_v, self.output_layer = (
            nn.Linear(hidden_size, hidden_size) for _ in range(4)
        )

    def forward(self, x, attn_bias=None):
        """attn_bias: float (batch, heads, nodes, nodes)"""
        b = x.size(0)
        q, k, v = (
            f(x).view(b, -1, self.num_heads, self.att_size).transpose(1, 2)
            for f in (self.linear_q, self.linear_k, self.linear_v)
        )
        s = torch.matmul(q * self.att_size**-0.5, k.transpose(2, 3))
        if attn_bias is not None:
            s = s + attn_bias
        y = torch.softmax(s, dim=3).matmul(v).transpose(1, 2).contiguous().view(b, -1, self.num_heads * self.att_size)
        return self.output_layer(y)


def build() -> nn.Module:
    return GraphormerAttention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 6, 32)},
    "mask": {"arg": "attn_bias", "shape": (2, 4, 6, 6), "on": "pairs", "polarity": "additive", "dtype": "float"},
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
