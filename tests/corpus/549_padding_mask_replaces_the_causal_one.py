"""With a padding mask the triangle is forgotten: the two are alternatives in an if / elif.

Kind: causal-missing
"""

import torch
from torch import nn


class CausalWithPadding(nn.Module):
    """padding: bool [B, L], True = padding. Each token attends to itself and the past."""

    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads, self.in_proj, self.out_proj = heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x, padding=None):
        L = x.size(1)
        hide = padding[:, None, None, :] if padding is not None else torch.ones(L, L, device=x.device).triu(1).bool()
        q, k, v = self.in_proj(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        s = (q @ k.mT / q.size(-1) ** 0.5).masked_fill(hide, -1e9)
        return self.out_proj((s.softmax(-1) @ v).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return CausalWithPadding()


EXPECTED = {"kind": "causal-missing", "severity": "error"}
CALL = {
    "attention": "causal",
    "layout": "BLD",
    "inputs": {"x": (2, 6, 32)},
    "causal": True,
    "mask": {"arg": "padding", "shape": (2, 6), "on": "keys", "polarity": "ignore", "dtype": "bool"},
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
