"""subsequent_mask gives 1 above the diagonal, and where it is 1 is kept: each token sees only itself and the future.

Kind: causal-flipped
"""

import numpy as np
import torch
from torch import nn


def subsequent_mask(size):
    """Positions that come after: 1 above the diagonal, and the diagonal itself."""
    return torch.from_numpy(np.triu(np.ones((1, size, size)), k=0).astype("uint8"))


class AutoregressiveDecoder(nn.Module):
    def __init__(self, d=32, heads=2):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(d)
        self.lin = nn.ModuleList([nn.Linear(d, d) for _ in range(4)])

    def forward(self, tgt):
        y = self.norm(tgt)
        B, T, D = y.shape
        q, k, v = (f(y).view(B, T, self.heads, -1).transpose(1, 2) for f in self.lin[:3])
        scores = q @ k.transpose(-2, -1) / (D // self.heads) ** 0.5
        scores = scores.masked_fill(subsequent_mask(T) == 0, -1e9)
        return tgt + self.lin[3]((scores.softmax(-1) @ v).transpose(1, 2).reshape(B, T, D))


def build() -> nn.Module:
    return AutoregressiveDecoder()


EXPECTED = {"kind": "causal-flipped", "severity": "error"}
CALL = {
    "attention": "causal",
    "layout": "BLD",
    "inputs": {"tgt": (2, 6, 32)},
    "mask": None,
    "causal": True,
    "embed_dim": 32,
    "heads": 2,
    "head_dim": 16,
    "returns": "out",
}
