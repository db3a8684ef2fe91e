"""Correct: logits are mixed over the heads before the softmax and weights after it.

Kind: correct
"""

import torch
from torch import einsum, nn


class TalkingHeadAttn(nn.Module):
    def __init__(self, dim=32, num_heads=4):
        super().__init__()
        self.num_heads, self.scale = num_heads, (dim // num_heads) ** -0.5
        self.qkv, self.proj = nn.Linear(dim, dim * 3), nn.Linear(dim, dim)
        self.pre_softmax_proj = nn.Parameter(torch.randn(num_heads, num_heads))
        self.post_softmax_proj = nn.Parameter(torch.randn(num_heads, num_heads))

    def forward(self, x):
        B, N, C = x.shape
        q, k, v = self.qkv(x).reshape(B, N, 3, self.num_heads, C // self.num_heads).permute(2, 0, 3, 1, 4).unbind(0)
        dots = einsum("bhid,bhjd->bhij", q * self.scale, k)
        dots = einsum("bhij,hg->bgij", dots, self.pre_softmax_proj)
        attn = einsum("bhij,hg->bgij", dots.softmax(dim=-1), self.post_softmax_proj)
        return self.proj((attn @ v).transpose(1, 2).reshape(B, N, C))


def build() -> nn.Module:
    return TalkingHeadAttn()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "rows-not-one"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 6, 32)},
    "mask": None,
    "row_sum": "any",
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
