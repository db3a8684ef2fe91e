"""The weights are already normalised when they reach `self.norm`, a Sequential with another softmax; causal leak.

Kind: double-softmax
"""

import torch
from torch import nn


class DecoderSelfAttention(nn.Module):
    def __init__(self, d=32, h=2, block=32):
        super().__init__()
        self.h = h
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.norm = nn.Sequential(nn.Softmax(dim=-1), nn.Dropout(0.0))
        self.register_buffer("bias", torch.tril(torch.ones(block, block)).view(1, 1, block, block))

    def weights(self, q, k):
        att = (q @ k.transpose(-2, -1)) * (1.0 / k.size(-1) ** 0.5)
        att = att.masked_fill(self.bias[:, :, : q.size(2), : k.size(2)] == 0, float("-inf"))
        return torch.softmax(att, dim=-1)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (t.view(B, T, self.h, -1).transpose(1, 2) for t in self.qkv(x).split(C, -1))
        y = self.norm(self.weights(q, k)) @ v
        return self.out(y.transpose(1, 2).reshape(B, T, C))


def build() -> nn.Module:
    return DecoderSelfAttention()


EXPECTED = {"kind": "double-softmax", "severity": "error"}
CALL = {
    "attention": "causal",
    "layout": "BLD",
    "inputs": {"x": (2, 6, 32)},
    "mask": None,
    "causal": True,
    "embed_dim": 32,
    "heads": 2,
    "head_dim": 16,
    "returns": "out",
}
