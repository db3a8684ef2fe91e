"""Queries and values are split into heads correctly; the keys are viewed as [B, H, L, d] without the transpose.

Kind: head-split-order
"""

import torch
from torch import nn


class CrossModal(nn.Module):
    def __init__(self, feat=24, n_heads=3):
        super().__init__()
        self.n_heads, self.d = n_heads, feat // n_heads
        self.proj = nn.ModuleDict({name: nn.Linear(feat, feat) for name in ("q", "k", "v", "out")})

    def forward(self, text, image):
        B, T, _ = text.shape
        q = self.proj["q"](text).reshape(B, T, self.n_heads, self.d).permute(0, 2, 1, 3)
        k = self.proj["k"](image).view(B, self.n_heads, -1, self.d)
        v = self.proj["v"](image).reshape(B, -1, self.n_heads, self.d).permute(0, 2, 1, 3)
        p = torch.softmax(q.matmul(k.transpose(-2, -1)) / self.d**0.5, -1)
        return self.proj["out"](p.matmul(v).permute(0, 2, 1, 3).reshape(B, T, -1))


def build() -> nn.Module:
    return CrossModal()


EXPECTED = {"kind": "head-split-order", "severity": "error"}
CALL = {
    "attention": "cross",
    "layout": "BLD",
    "inputs": {"text": (2, 4, 24), "image": (2, 6, 24)},
    "query_arg": "text",
    "context_arg": "image",
    "mask": None,
    "embed_dim": 24,
    "heads": 3,
    "head_dim": 8,
    "returns": "out",
}
