"""A helper returns weights, the caller takes them for scores.

Kind: double-softmax
"""

import math

import torch
import torch.nn.functional as F
from torch import nn


def attention_scores(q, k, mask):
    s = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(q.size(-1))
    return F.softmax(s.masked_fill(mask == 0, -1e9), dim=-1)


class CausalAttention(nn.Module):
    def __init__(self, n_embd=32, n_head=2, block_size=32):
        super().__init__()
        self.n_head = n_head
        self.c_attn, self.c_proj = nn.Linear(n_embd, 3 * n_embd), nn.Linear(n_embd, n_embd)
        self.register_buffer("bias", torch.tril(torch.ones(block_size, block_size)).view(1, 1, block_size, block_size))

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = (t.view(B, T, self.n_head, C // self.n_head).transpose(1, 2) for t in self.c_attn(x).split(C, dim=2))
        att = attention_scores(q, k, self.bias[:, :, :T, :T])
        y = F.softmax(att, dim=-1) @ v
        return self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))


def build() -> nn.Module:
    return CausalAttention()


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
