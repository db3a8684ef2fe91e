"""masked_fill(mask == 0, 1e-9): meant as -1e9.

Kind: mask-fill-weak
"""

import math

import torch
from torch import nn


def attention(query, key, value, mask=None, dropout=None):
    d_k = query.size(-1)
    scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(d_k)
    if mask is not None:
        scores = scores.masked_fill(mask == 0, 1e-9)
    p_attn = scores.softmax(dim=-1)
    if dropout is not None:
        p_attn = dropout(p_attn)
    return torch.matmul(p_attn, value), p_attn


class MultiHeadedAttention(nn.Module):
    """mask: [nbatches, 1, length], 0 = do not attend."""

    def __init__(self, h=4, d_model=32, dropout=0.1):
        super().__init__()
        self.d_k, self.h = d_model // h, h
        self.linears = nn.ModuleList([nn.Linear(d_model, d_model) for _ in range(4)])
        self.attn, self.dropout = None, nn.Dropout(p=dropout)

    def forward(self, query, key, value, mask=None):
        if mask is not None:
            mask = mask.unsqueeze(1)
        nbatches = query.size(0)
        query, key, value = [
            lin(x).view(nbatches, -1, self.h, self.d_k).transpose(1, 2)
            for lin, x in zip(self.linears, (query, key, value), strict=False)
        ]
        x, self.attn = attention(query, key, value, mask=mask, dropout=self.dropout)
        x = x.transpose(1, 2).contiguous().view(nbatches, -1, self.h * self.d_k)
        return self.linears[-1](x)


def build() -> nn.Module:
    return MultiHeadedAttention()


EXPECTED = {"kind": "mask-fill-weak", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"query": (2, 6, 32), "key": "query", "value": "query"},
    "mask": {"arg": "mask", "shape": (2, 1, 6), "on": "keys", "polarity": "keep", "dtype": "long"},
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
    "dropout": 0.1,
}
