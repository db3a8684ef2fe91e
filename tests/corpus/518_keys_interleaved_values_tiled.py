"""Grouped heads: keys are repeated head by head, values are tiled, so that a head reads the values of another group.

Kind: gqa-order
"""

import torch
from torch import nn


class GroupedQueryAttention(nn.Module):
    def __init__(self, d_in=32, d_out=32, num_heads=4, num_kv_groups=2):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, d_out // num_heads
        self.num_kv_groups, self.group_size = num_kv_groups, num_heads // num_kv_groups
        self.W_query = nn.Linear(d_in, d_out, bias=False)
        self.W_key = nn.Linear(d_in, num_kv_groups * self.head_dim, bias=False)
        self.W_value = nn.Linear(d_in, num_kv_groups * self.head_dim, bias=False)
        self.out_proj = nn.Linear(d_out, d_out, bias=False)

    def forward(self, x):
        b, num_tokens, _ = x.shape
        queries = self.W_query(x).view(b, num_tokens, self.num_heads, self.head_dim).transpose(1, 2)
        keys = self.W_key(x).view(b, num_tokens, self.num_kv_groups, self.head_dim).transpose(1, 2)
        values = self.W_value(x).view(b, num_tokens, self.num_kv_groups, self.head_dim).transpose(1, 2)
        keys = keys.repeat_interleave(self.group_size, dim=1)
        values = values.repeat(1, self.group_size, 1, 1)
        scores = queries @ keys.transpose(2, 3)
        hide = torch.triu(torch.ones(num_tokens, num_tokens, dtype=torch.bool, device=x.device), diagonal=1)
        scores.masked_fill_(hide, -torch.inf)
        weights = torch.softmax(scores / self.head_dim**0.5, dim=-1)
        context = (weights @ values).transpose(1, 2).reshape(b, num_tokens, -1)
        return self.out_proj(context)


def build() -> nn.Module:
    return GroupedQueryAttention()


EXPECTED = {"kind": "gqa-order", "severity": "error"}
CALL = {
    "attention": "causal",
    "layout": "BLD",
    "inputs": {"x": (2, 6, 32)},
    "mask": None,
    "causal": True,
    "embed_dim": 32,
    "heads": 4,
    "kv_heads": 2,
    "head_dim": 8,
    "returns": "out",
    "probe": {"q": "W_query", "k": "W_key", "v": "W_value", "o": "out_proj"},
}
