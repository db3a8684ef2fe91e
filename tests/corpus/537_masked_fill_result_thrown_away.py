"""masked_fill is not in place, and its result is not kept.

Kind: mask-ignored
"""

import torch
import torch.nn as nn


class AttentionHead(nn.Module):
    def __init__(self, hidden_dim, head_dim):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(hidden_dim, head_dim) for _ in range(3))

    def forward(self, x, src_mask=None):
        scores = self.q(x).matmul(self.k(x).transpose(-2, -1)) / self.q.out_features**0.5
        if src_mask is not None:
            scores.masked_fill(src_mask == 0, float("-inf"))
        return torch.softmax(scores, -1).matmul(self.v(x))


class MultiHeadSelfAttention(nn.Module):
    """src_mask: [batch, 1, length]; zeros mark padding."""

    def __init__(self, hidden_dim=32, n_heads=4):
        super().__init__()
        self.heads = nn.ModuleList([AttentionHead(hidden_dim, hidden_dim // n_heads) for _ in range(n_heads)])
        self.out = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x, src_mask=None):
        return self.out(torch.cat([head(x, src_mask) for head in self.heads], dim=-1))


def build() -> nn.Module:
    return MultiHeadSelfAttention()


EXPECTED = {"kind": "mask-ignored", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 6, 32)},
    "mask": {"arg": "src_mask", "shape": (2, 1, 6), "on": "keys", "polarity": "keep", "dtype": "long"},
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
