"""Two paths: the explicit one hides padding, the fused one (the default) is called without the mask.

Kind: mask-ignored
"""

import torch
import torch.nn.functional as F
from torch import nn


class Attend(nn.Module):
    def __init__(self, flash=True):
        super().__init__()
        self.flash = flash

    def forward(self, q, k, v, mask=None):
        if self.flash:
            return F.scaled_dot_product_attention(q, k, v)
        sim = torch.einsum("bhid,bhjd->bhij", q, k) * q.shape[-1] ** -0.5
        if mask is not None:
            sim = sim.masked_fill(~mask[:, None, None], -torch.finfo(sim.dtype).max)
        return torch.einsum("bhij,bhjd->bhid", sim.softmax(-1), v)


class Attention(nn.Module):
    """mask: bool [b, n], True = keep."""

    def __init__(self, dim=32, heads=4, flash=True):
        super().__init__()
        self.heads, self.attend = heads, Attend(flash)
        self.to_qkv, self.to_out = nn.Linear(dim, dim * 3, bias=False), nn.Linear(dim, dim, bias=False)

    def forward(self, x, mask=None):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.to_qkv(x).chunk(3, dim=-1))
        return self.to_out(self.attend(q, k, v, mask=mask).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return Attention()


EXPECTED = {"kind": "mask-ignored", "severity": "error"}
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
