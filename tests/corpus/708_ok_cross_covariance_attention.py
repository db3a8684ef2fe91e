"""Correct: XCiT; attention between channels, softmax over channels, normalised along the tokens, learned temperature.

Kind: correct
"""

import torch
import torch.nn as nn


class XCA(nn.Module):
    def __init__(self, dim=32, num_heads=4, qkv_bias=False):
        super().__init__()
        self.num_heads = num_heads
        self.temperature = nn.Parameter(torch.ones(num_heads, 1, 1))
        self.qkv = nn.Linear(dim, dim * 3, bias=qkv_bias)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.num_heads, C // self.num_heads).permute(2, 0, 3, 4, 1)
        q, k, v = qkv.unbind(0)  # B, H, C/H, N
        q, k = nn.functional.normalize(q, dim=-1), nn.functional.normalize(k, dim=-1)
        attn = (q @ k.transpose(-2, -1)) * self.temperature
        attn = attn.softmax(dim=-1)
        return self.proj((attn @ v).permute(0, 3, 1, 2).reshape(B, N, C))


def build() -> nn.Module:
    return XCA()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "qknorm-wrong"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 7, 32)},
    "mask": None,
    "axis": "channels",
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
