"""The heads are multiplied by a sigmoid gate of the token before the output projection.

Kind: correct
"""

import torch
from torch import nn


class GatedAttention(nn.Module):
    """attention_mask: (batch, tokens) bool, True = token."""

    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads = heads
        self.qkvg, self.out = nn.Linear(dim, 4 * dim, bias=False), nn.Linear(dim, dim, bias=False)

    def forward(self, x, attention_mask=None):
        n = x.shape[1]
        q, k, v, g = self.qkvg(x).unflatten(-1, (4, self.heads, -1)).permute(2, 0, 3, 1, 4)
        keep = torch.ones(n, n, dtype=torch.bool, device=x.device).tril()
        if attention_mask is not None:
            keep = keep & attention_mask[:, None, None]
        s = (q @ k.mT * q.shape[-1] ** -0.5).masked_fill(~keep, torch.finfo(q.dtype).min)
        return self.out((s.softmax(-1) @ v * g.sigmoid()).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return GatedAttention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "causal",
    "layout": "BLD",
    "inputs": {"x": (2, 6, 32)},
    "mask": {"arg": "attention_mask", "shape": (2, 6), "on": "keys", "polarity": "keep", "dtype": "bool"},
    "causal": True,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
