"""Dropout hits the logits after the mask: a dropped -1e4 becomes 0, and padding is attended to in training.

Kind: dropout-wrong-place
"""

import torch
from torch import nn


class DropLogitsAttention(nn.Module):
    """mask: bool [B, L], True = real token."""

    def __init__(self, dim=32, heads=4, p=0.3):
        super().__init__()
        self.heads, self.attn_drop = heads, nn.Dropout(p)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        a = q @ k.mT * q.size(-1) ** -0.5
        if mask is not None:
            a = torch.where(mask[:, None, None, :], a, -1e4)
        a = self.attn_drop(a).softmax(-1)
        return self.proj((a @ v).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return DropLogitsAttention()


EXPECTED = {"kind": "dropout-wrong-place", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 6, 32)},
    "dropout": 0.3,
    "mask": {"arg": "mask", "shape": (2, 6), "on": "keys", "polarity": "keep", "dtype": "bool"},
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
