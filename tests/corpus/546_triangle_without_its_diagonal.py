"""tril(-1) keeps no key for the first token: its row is -inf everywhere.

Kind: causal-strict
"""

import torch
from torch import nn


class Head(nn.Module):
    """One head of self-attention."""

    def __init__(self, n_embd=16, head_size=16, block_size=32):
        super().__init__()
        self.key = nn.Linear(n_embd, head_size, bias=False)
        self.query = nn.Linear(n_embd, head_size, bias=False)
        self.value = nn.Linear(n_embd, head_size, bias=False)
        self.register_buffer("tril", torch.tril(torch.ones(block_size, block_size), -1))

    def forward(self, x):
        _, T, _ = x.shape
        k, q = self.key(x), self.query(x)
        wei = q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5
        wei = wei.masked_fill(self.tril[:T, :T] == 0, float("-inf"))
        return wei.softmax(dim=-1) @ self.value(x)


def build() -> nn.Module:
    return Head()


EXPECTED = {"kind": "causal-strict", "severity": "error"}
CALL = {
    "attention": "causal",
    "layout": "BLD",
    "inputs": {"x": (2, 6, 16)},
    "mask": None,
    "causal": True,
    "embed_dim": 16,
    "heads": 1,
    "head_dim": 16,
    "returns": "out",
}
