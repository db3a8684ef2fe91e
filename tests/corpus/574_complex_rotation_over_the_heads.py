"""The table is broadcast against [B, T, H, d/2] on the head axis: heads are rotated, tokens are not.

Kind: rope-wrong-axis
"""

import torch
from torch import nn


class RotaryAttention(nn.Module):
    def __init__(self, dim=32, n_heads=4, max_len=64):
        super().__init__()
        self.n_heads, hd = n_heads, dim // n_heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(dim, dim, bias=False) for _ in range(4))
        ang = torch.outer(torch.arange(max_len).double(), 1e4 ** (-torch.arange(0, hd, 2).double() / hd))
        self.freqs_cis = torch.polar(torch.ones_like(ang), ang)

    def rotary(self, x):
        z = torch.view_as_complex(x.double().reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(z * self.freqs_cis[: x.shape[-2]]).flatten(-2).type_as(x)

    def forward(self, x):
        B, T, _ = x.shape
        q, k, v = (w(x).view(B, T, self.n_heads, -1) for w in (self.wq, self.wk, self.wv))
        q, k = self.rotary(q), self.rotary(k)
        s = torch.einsum("bihd,bjhd->bhij", q, k) / q.shape[-1] ** 0.5
        return self.wo(torch.einsum("bhij,bjhd->bihd", s.softmax(-1), v).reshape(B, T, -1))


def build() -> nn.Module:
    return RotaryAttention()


EXPECTED = {"kind": "rope-wrong-axis", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 7, 32)},
    "mask": None,
    "position": "rope",
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
