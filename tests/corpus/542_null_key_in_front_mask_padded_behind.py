"""A learned null key is put in front of the keys, but the mask is padded at its end.

Kind: mask-shifted
"""

import torch
import torch.nn.functional as F
from torch import nn


class NullKeyAttention(nn.Module):
    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads, d = heads, dim // heads
        self.null_kv = nn.Parameter(torch.randn(2, heads, 1, d))
        self.to_q, self.to_kv, self.to_out = nn.Linear(dim, dim), nn.Linear(dim, 2 * dim), nn.Linear(dim, dim)

    def forward(self, x, context=None, mask=None):
        """mask: bool (b, j), True = attend to this context token."""
        context = x if context is None else context
        q = self.to_q(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        k, v = self.to_kv(context).unflatten(-1, (2, self.heads, -1)).permute(2, 0, 3, 1, 4)
        nk, nv = (t.expand(x.shape[0], -1, -1, -1) for t in self.null_kv)
        k, v = torch.cat((nk, k), dim=-2), torch.cat((nv, v), dim=-2)
        sim = torch.einsum("bhid,bhjd->bhij", q, k) * q.shape[-1] ** -0.5
        if mask is not None:
            mask = F.pad(mask, (0, 1), value=True)
            sim = sim.masked_fill(~mask[:, None, None, :], -torch.finfo(sim.dtype).max)
        return self.to_out((sim.softmax(-1) @ v).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return NullKeyAttention()


EXPECTED = {"kind": "mask-shifted", "severity": "error"}
CALL = {
    "attention": "cross",
    "layout": "BLD",
    "inputs": {"x": (2, 4, 32), "context": (2, 6, 32)},
    "query_arg": "x",
    "context_arg": "context",
    "mask": {"arg": "mask", "shape": (2, 6), "on": "context", "polarity": "keep", "dtype": "bool"},
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
