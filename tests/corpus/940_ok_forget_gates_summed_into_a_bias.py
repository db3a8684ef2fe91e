"""Forgetting transformer: the bias between i and j is the sum of log forget gates after j up to i.

Kind: correct
"""

import torch
import torch.nn.functional as F
from torch import nn


class ForgettingAttention(nn.Module):
    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads, self.fgate = heads, nn.Linear(dim, heads)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        n = x.shape[1]
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        c = F.logsigmoid(self.fgate(x)).cumsum(1).transpose(1, 2)
        bias = c[..., :, None] - c[..., None, :]
        bias = bias.masked_fill(torch.ones(n, n, dtype=torch.bool, device=x.device).triu(1), float("-inf"))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        return self.proj(y.transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return ForgettingAttention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "causal",
    "layout": "BLD",
    "inputs": {"x": (2, 7, 32)},
    "mask": None,
    "causal": True,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
