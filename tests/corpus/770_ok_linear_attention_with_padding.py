"""Correct: linear attention; the features of padding keys are zeroed, so they enter neither sum.

Kind: correct
"""

import torch
import torch.nn.functional as F
from torch import nn


class MaskedLinearAttention(nn.Module):
    """mask: bool [B, L], True = token."""

    def __init__(self, dim=24, heads=3):
        super().__init__()
        self.heads, self.to_qkv, self.to_out = heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.to_qkv(x).chunk(3, -1))
        q, k = F.elu(q) + 1, F.elu(k) + 1
        if mask is not None:
            k = k.masked_fill(~mask[:, None, :, None], 0.0)
        z = torch.einsum("bhnd,bhd->bhn", q, k.sum(-2)).clamp_min(1e-4)
        y = torch.einsum("bhnd,bhde,bhn->bhne", q, torch.einsum("bhnd,bhne->bhde", k, v), 1 / z)
        return self.to_out(y.transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return MaskedLinearAttention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "mask-multiplied"}
CALL = {
    "attention": "linear",
    "layout": "BLD",
    "inputs": {"x": (2, 6, 24)},
    "mask": {"arg": "mask", "shape": (2, 6), "on": "keys", "polarity": "keep", "dtype": "bool"},
    "embed_dim": 24,
    "heads": 3,
    "head_dim": 8,
    "returns": "out",
}
