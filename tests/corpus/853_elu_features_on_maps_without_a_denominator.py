"""Linear attention over pixels: positive features, and no division by their sum.

Kind: linear-unnormalised
"""

import torch
import torch.nn.functional as F
from torch import nn


class LinearAttention2d(nn.Module):
    def __init__(self, dim=16, heads=2):
        super().__init__()
        self.heads = heads
        self.to_qkv, self.to_out = nn.Conv2d(dim, dim * 3, 1, bias=False), nn.Conv2d(dim, dim, 1)

    def forward(self, x):
        b, c, h, w = x.shape
        q, k, v = (t.reshape(b, self.heads, c // self.heads, h * w) for t in self.to_qkv(x).chunk(3, dim=1))
        q, k = F.elu(q) + 1, F.elu(k) + 1
        context = torch.einsum("bhdn,bhen->bhde", k, v)
        out = torch.einsum("bhde,bhdn->bhen", context, q)
        return self.to_out(out.reshape(b, c, h, w))


def build() -> nn.Module:
    return LinearAttention2d()


EXPECTED = {"kind": "linear-unnormalised", "severity": "warning"}
CALL = {
    "attention": "self",
    "layout": "BCHW",
    "inputs": {"x": (2, 16, 5, 6)},
    "mask": None,
    "channels": 16,
    "heads": 2,
    "head_dim": 8,
    "returns": "out",
}
