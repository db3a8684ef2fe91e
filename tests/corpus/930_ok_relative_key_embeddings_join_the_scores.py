"""Relative key embeddings: q . r(i - j) is added to q . k before the division.

Kind: correct
"""

import torch
from torch import nn


class RelativeKeyAttention(nn.Module):
    def __init__(self, dim=32, heads=4, max_position_embeddings=16):
        super().__init__()
        self.heads, self.max_position = heads, max_position_embeddings
        self.distance_embedding = nn.Embedding(2 * max_position_embeddings - 1, dim // heads)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        n = x.shape[1]
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        i = torch.arange(n, device=x.device)
        r = self.distance_embedding(i[:, None] - i[None, :] + self.max_position - 1)
        scores = q @ k.mT + torch.einsum("bhld,lrd->bhlr", q, r)
        return self.proj(((scores / q.shape[-1] ** 0.5).softmax(-1) @ v).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return RelativeKeyAttention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 7, 32)},
    "mask": None,
    "position": "relative",
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
