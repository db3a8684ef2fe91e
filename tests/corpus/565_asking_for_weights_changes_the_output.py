"""The explicit path, taken when the weights are wanted, forgets the scale that the fused path has.

Kind: path-mismatch
"""

import torch
import torch.nn.functional as F
from torch import nn


class VisualAttention(nn.Module):
    def __init__(self, dim=32, num_heads=4):
        super().__init__()
        self.num_heads = num_heads
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x, return_attention=False):
        B, N, C = x.shape
        q, k, v = self.qkv(x).reshape(B, N, 3, self.num_heads, C // self.num_heads).permute(2, 0, 3, 1, 4)
        if not return_attention:
            return self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(B, N, C))
        attn = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
        return self.proj((attn @ v).transpose(1, 2).reshape(B, N, C)), attn


def build() -> nn.Module:
    return VisualAttention()


EXPECTED = {"kind": "path-mismatch", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 6, 32)},
    "mask": None,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
    "options": {"return_attention": [False, True]},
}
