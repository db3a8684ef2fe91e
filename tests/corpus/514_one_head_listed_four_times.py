"""`[head] * n` puts the same head into the list n times.

Kind: heads-collapsed
"""

import torch
from torch import nn


class Head(nn.Module):
    def __init__(self, n_embd, head_size):
        super().__init__()
        self.key = nn.Linear(n_embd, head_size, bias=False)
        self.query = nn.Linear(n_embd, head_size, bias=False)
        self.value = nn.Linear(n_embd, head_size, bias=False)

    def forward(self, x):
        wei = self.query(x) @ self.key(x).transpose(-2, -1) * self.key.out_features**-0.5
        return wei.softmax(dim=-1) @ self.value(x)


class MultiHead(nn.Module):
    def __init__(self, n_embd=32, num_heads=4):
        super().__init__()
        head = Head(n_embd, n_embd // num_heads)
        self.heads = nn.ModuleList([head] * num_heads)
        self.proj = nn.Linear(n_embd, n_embd)

    def forward(self, x):
        return self.proj(torch.cat([h(x) for h in self.heads], dim=-1))


def build() -> nn.Module:
    return MultiHead()


EXPECTED = {"kind": "heads-collapsed", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 6, 32)},
    "mask": None,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
