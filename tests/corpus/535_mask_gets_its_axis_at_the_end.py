"""mask.unsqueeze(-1) where unsqueeze(-2) is meant: rows of padding queries are flattened, padding keys stay.

Kind: mask-query-axis
"""

import torch
from torch import nn


class SelfAttentionWithPooling(nn.Module):
    def __init__(self, d=24, heads=2):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)

    def forward(self, seq, seq_mask=None):
        """seq_mask: bool [B, L], True for real items."""
        parts = []
        for q, k, v in zip(*(f(seq).chunk(self.heads, -1) for f in (self.q, self.k, self.v)), strict=True):
            score = q @ k.transpose(1, 2) / q.size(-1) ** 0.5
            if seq_mask is not None:
                score = score.masked_fill(~seq_mask.unsqueeze(-1), -1e9)
            parts.append(score.softmax(-1) @ v)
        return torch.cat(parts, -1)


def build() -> nn.Module:
    return SelfAttentionWithPooling()


EXPECTED = {"kind": "mask-query-axis", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"seq": (2, 6, 24)},
    "mask": {"arg": "seq_mask", "shape": (2, 6), "on": "keys", "polarity": "keep", "dtype": "bool"},
    "embed_dim": 24,
    "heads": 2,
    "head_dim": 12,
    "returns": "out",
}
