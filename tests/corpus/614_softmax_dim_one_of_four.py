"""softmax(dim=1) was right for [B, N, N]; with heads the axis 1 is the head axis.

Kind: softmax-axis-head
"""

import torch
from torch import nn


class UpgradedAttention(nn.Module):
    def __init__(self, channels=24, heads=3):
        super().__init__()
        self.heads = heads
        self.f = nn.Conv1d(channels, 3 * channels, 1)
        self.o = nn.Conv1d(channels, channels, 1)

    def forward(self, feats):
        """feats: [B, C, N]."""
        B, C, N = feats.shape
        q, k, v = self.f(feats).view(B, 3, self.heads, C // self.heads, N).unbind(1)
        w = torch.einsum("bhcn,bhcm->bhnm", q, k) / (C // self.heads) ** 0.5
        w = torch.nn.functional.softmax(w, dim=1)
        return self.o(torch.einsum("bhnm,bhcm->bhcn", w, v).reshape(B, C, N))


def build() -> nn.Module:
    return UpgradedAttention()


EXPECTED = {"kind": "softmax-axis-head", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BCL",
    "inputs": {"feats": (2, 24, 6)},
    "mask": None,
    "embed_dim": 24,
    "heads": 3,
    "head_dim": 8,
    "returns": "out",
}
