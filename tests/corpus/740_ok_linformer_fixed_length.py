"""Correct: Linformer; keys and values are projected along a fixed length.

Kind: correct
"""

import torch
from torch import nn


class LinformerSelfAttention(nn.Module):
    def __init__(self, dim=32, seq_len=8, k=4, heads=4):
        super().__init__()
        self.seq_len, self.heads = seq_len, heads
        self.to_q, self.to_k, self.to_v = (nn.Linear(dim, dim, bias=False) for _ in range(3))
        self.proj_k = nn.Parameter(torch.randn(seq_len, k) * k**-0.5)
        self.proj_v = nn.Parameter(torch.randn(seq_len, k) * k**-0.5)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, d = x.shape
        assert n == self.seq_len, f"the sequence length must be {self.seq_len}, {n} given"
        queries = self.to_q(x)
        keys = torch.einsum("bnd,nk->bkd", self.to_k(x), self.proj_k)
        values = torch.einsum("bnd,nk->bkd", self.to_v(x), self.proj_v)
        queries, keys, values = (
            t.reshape(b, -1, self.heads, d // self.heads).transpose(1, 2) for t in (queries, keys, values)
        )
        attn = (torch.einsum("bhnd,bhkd->bhnk", queries, keys) * (d // self.heads) ** -0.5).softmax(dim=-1)
        return self.to_out(torch.einsum("bhnk,bhkd->bhnd", attn, values).transpose(1, 2).reshape(b, n, -1))


def build() -> nn.Module:
    return LinformerSelfAttention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "head-split-order"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 8, 32)},
    "mask": None,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
