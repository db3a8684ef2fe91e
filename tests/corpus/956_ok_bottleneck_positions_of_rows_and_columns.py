"""Bottleneck attention: learned row and column embeddings are summed and multiplied with the queries.

Kind: correct
"""

import torch
from torch import nn


class BotMHSA(nn.Module):
    def __init__(self, n_dims=16, width=5, height=4, heads=2):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Conv2d(n_dims, n_dims, 1) for _ in range(3))
        self.rel_h = nn.Parameter(torch.randn(1, heads, n_dims // heads, height, 1))
        self.rel_w = nn.Parameter(torch.randn(1, heads, n_dims // heads, 1, width))

    def forward(self, x):
        b, c, h, w = x.size()
        q = self.query(x).view(b, self.heads, c // self.heads, -1)
        k = self.key(x).view(b, self.heads, c // self.heads, -1)
        v = self.value(x).view(b, self.heads, c // self.heads, -1)
        content_content = torch.matmul(q.permute(0, 1, 3, 2), k)
        content_position = (self.rel_h + self.rel_w).flatten(3).permute(0, 1, 3, 2)
        content_position = torch.matmul(content_position, q)
        attention = torch.softmax(content_content + content_position.transpose(2, 3), dim=-1)
        return torch.matmul(v, attention.permute(0, 1, 3, 2)).view(b, c, h, w)


def build() -> nn.Module:
    return BotMHSA()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "self",
    "layout": "BCHW",
    "inputs": {"x": (2, 16, 4, 5)},
    "mask": None,
    "channels": 16,
    "heads": 2,
    "head_dim": 8,
    "returns": "out",
}
