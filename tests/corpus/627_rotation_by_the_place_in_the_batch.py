"""Sequence-first [L, B, H, d]; the table is broadcast along the batch axis, so that tokens have no position.

Kind: rope-wrong-axis
"""

import torch
from torch import nn


class SeqFirstRotary(nn.Module):
    """x: [L, B, D]."""

    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        d = dim // heads
        self.register_buffer("inv_freq", 10000.0 ** (-torch.arange(0, d, 2) / d))

    def rotary(self, t):
        freqs = torch.outer(torch.arange(t.shape[1], dtype=t.dtype), self.inv_freq.to(t.dtype))
        emb = torch.cat((freqs, freqs), -1)[None, :, None, :]
        half = torch.cat((-t[..., t.shape[-1] // 2 :], t[..., : t.shape[-1] // 2]), -1)
        return t * emb.cos() + half * emb.sin()

    def forward(self, x):
        L, B, D = x.shape
        q, k, v = self.qkv(x).view(L, B, 3, self.heads, -1).unbind(2)
        q, k = self.rotary(q), self.rotary(k)
        s = torch.einsum("ibhd,jbhd->bhij", q, k) * q.shape[-1] ** -0.5
        return self.out(torch.einsum("bhij,jbhd->ibhd", s.softmax(-1), v).reshape(L, B, D))


def build() -> nn.Module:
    return SeqFirstRotary()


EXPECTED = {"kind": "rope-wrong-axis", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "LBD",
    "inputs": {"x": (7, 2, 32)},
    "mask": None,
    "position": "rope",
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
