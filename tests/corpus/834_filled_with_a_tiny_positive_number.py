"""把 -1e9 写成了 1e-9: 被遮住的位置得到的分数约等于 0.

Kind: mask-fill-weak
"""

import torch
from torch import nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model=32, n_heads=4):
        super().__init__()
        self.n_heads, self.d_k = n_heads, d_model // n_heads
        self.linears = nn.ModuleList(nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x, mask=None):
        """mask: (批大小, 序列长度), 1 表示真实词"""
        bs = x.size(0)
        q, k, v = [f(x).view(bs, -1, self.n_heads, self.d_k).transpose(1, 2) for f in self.linears[:3]]
        scores = torch.matmul(q, k.transpose(-2, -1)) / self.d_k**0.5
        if mask is not None:
            scores = scores.masked_fill(mask[:, None, None, :] == 0, 1e-9)
        x = torch.matmul(scores.softmax(-1), v).transpose(1, 2).contiguous().view(bs, -1, self.n_heads * self.d_k)
        return self.linears[-1](x)


def build() -> nn.Module:
    return MultiHeadAttention()


EXPECTED = {"kind": "mask-fill-weak", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 6, 32)},
    "mask": {"arg": "mask", "shape": (2, 6), "on": "keys", "polarity": "keep", "dtype": "long"},
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
