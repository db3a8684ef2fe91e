"""A bias of -10 hides padding, and is then divided by sqrt(d) with the logits, so that padding keeps a few percent.

Kind: mask-scaled
"""

import math

import torch
from torch import nn


class PaddedAttention(nn.Module):
    """pad_mask: float [B, L], 1.0 for real tokens and 0.0 for padding."""

    def __init__(self, width=64):
        super().__init__()
        self.width = width
        self.to_q = nn.Linear(width, width)
        self.to_k = nn.Linear(width, width)
        self.to_v = nn.Linear(width, width)

    def forward(self, tokens, pad_mask=None):
        logits = torch.einsum("bqd,bkd->bqk", self.to_q(tokens), self.to_k(tokens))
        if pad_mask is not None:
            logits = logits - 10.0 * (1.0 - pad_mask[:, None, :])
        logits = logits / math.sqrt(self.width)
        return torch.einsum("bqk,bkd->bqd", logits.softmax(-1), self.to_v(tokens))


def build() -> nn.Module:
    return PaddedAttention()


EXPECTED = {"kind": "mask-scaled", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"tokens": (2, 6, 64)},
    "mask": {"arg": "pad_mask", "shape": (2, 6), "on": "keys", "polarity": "keep", "dtype": "float"},
    "embed_dim": 64,
    "heads": 1,
    "head_dim": 64,
    "returns": "out",
}
