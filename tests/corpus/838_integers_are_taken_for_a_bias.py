"""Boolean masks are filled in, all others are added: an integer 0/1 mask adds 0 or 1.

Kind: mask-dtype
"""

import torch
from torch import nn


class Attn(nn.Module):
    """mask: (batch, tokens), bool or int, 1 = keep."""

    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads, self.qkv, self.proj = heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        s = q @ k.mT / q.shape[-1] ** 0.5
        if mask is not None:
            mask = mask[:, None, None, :]
            s = s.masked_fill(~mask, float("-inf")) if mask.dtype == torch.bool else s + mask
        return self.proj((s.softmax(-1) @ v).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return Attn()


EXPECTED = {"kind": "mask-dtype", "severity": "error"}
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
