"""Correct: guided-diffusion block; group norm, 1-D convolutions, d**-0.25 on both, zero-initialised projection.

Kind: correct
"""

import math

import torch
from torch import nn


class QKVAttentionLegacy(nn.Module):
    def __init__(self, n_heads):
        super().__init__()
        self.n_heads = n_heads

    def forward(self, qkv):
        bs, width, length = qkv.shape
        ch = width // (3 * self.n_heads)
        q, k, v = qkv.reshape(bs * self.n_heads, ch * 3, length).split(ch, dim=1)
        scale = 1 / math.sqrt(math.sqrt(ch))
        weight = torch.einsum("bct,bcs->bts", q * scale, k * scale)
        weight = torch.softmax(weight.float() if weight.dtype == torch.half else weight, dim=-1).type(weight.dtype)
        return torch.einsum("bts,bcs->bct", weight, v).reshape(bs, -1, length)


class AttentionBlock(nn.Module):
    def __init__(self, channels=32, num_heads=2):
        super().__init__()
        self.norm = nn.GroupNorm(8, channels)
        self.qkv = nn.Conv1d(channels, channels * 3, 1)
        self.attention, self.proj_out = QKVAttentionLegacy(num_heads), nn.Conv1d(channels, channels, 1)
        for p in self.proj_out.parameters():
            p.detach().zero_()

    def forward(self, x):
        b, c, *spatial = x.shape
        x = x.reshape(b, c, -1)
        h = self.proj_out(self.attention(self.qkv(self.norm(x))))
        return (x + h).reshape(b, c, *spatial)


def build() -> nn.Module:
    return AttentionBlock()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "output-unused"}
CALL = {
    "attention": "spatial",
    "layout": "BCHW",
    "inputs": {"x": (2, 32, 3, 4)},
    "mask": None,
    "embed_dim": 32,
    "heads": 2,
    "head_dim": 16,
    "returns": "out",
}
