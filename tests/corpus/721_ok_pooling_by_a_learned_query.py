"""Correct: attention pooling with one learned query, masked through torch.where, weights returned first.

Kind: correct
"""

import torch
from torch import nn


class AttentivePooler(nn.Module):
    """valid: bool [B, T], True for frames that exist."""

    def __init__(self, dim=20):
        super().__init__()
        self.probe = nn.Parameter(torch.randn(dim))
        self.key, self.value = nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(self, frames, valid=None):
        logits = self.key(frames) @ self.probe / self.probe.numel() ** 0.5
        if valid is not None:
            logits = torch.where(valid, logits, torch.full_like(logits, torch.finfo(logits.dtype).min))
        weights = logits.softmax(1)
        return weights, torch.einsum("bt,btd->bd", weights, self.value(frames))


def build() -> nn.Module:
    return AttentivePooler()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "pool",
    "layout": "BLD",
    "inputs": {"frames": (2, 6, 20)},
    "mask": {"arg": "valid", "shape": (2, 6), "on": "keys", "polarity": "keep", "dtype": "bool"},
    "embed_dim": 20,
    "heads": 1,
    "head_dim": 20,
    "returns": "(weights, out)",
}
