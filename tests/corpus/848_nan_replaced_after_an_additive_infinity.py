"""`where(isnan)` cleans the forward; the backward of the softmax is NaN all the same.

Kind: fully-masked-nan-backward
"""

import torch
from torch import nn


class SafeAttention(nn.Module):
    """mask: (batch, tokens) bool, True = keep; an item may be empty."""

    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads, self.qkv, self.proj = heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        s = q @ k.mT / q.shape[-1] ** 0.5
        if mask is not None:
            bias = torch.zeros(mask.shape, dtype=x.dtype, device=x.device).masked_fill(~mask, float("-inf"))
            s = s + bias[:, None, None]
        w = s.softmax(-1)
        w = torch.where(torch.isnan(w), torch.zeros_like(w), w)
        return self.proj((w @ v).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return SafeAttention()


EXPECTED = {"kind": "fully-masked-nan-backward", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 6, 32)},
    "mask": {"arg": "mask", "shape": (2, 6), "on": "keys", "polarity": "keep", "dtype": "bool"},
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
