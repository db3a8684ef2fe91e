"""One-dimensional neighbourhood attention: at the ends the window slides inwards, so that every token has 3 keys.

Kind: correct
"""

import torch
from torch import nn


class NeighborhoodAttention1D(nn.Module):
    def __init__(self, dim=32, num_heads=4, kernel_size=3):
        super().__init__()
        self.num_heads, self.kernel_size = num_heads, kernel_size
        self.rpb = nn.Parameter(torch.randn(num_heads, 2 * kernel_size - 1) * 0.02)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        B, L, C = x.shape
        q, k, v = self.qkv(x).reshape(B, L, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        start = (torch.arange(L, device=x.device) - self.kernel_size // 2).clamp(0, max(L - self.kernel_size, 0))
        idx = start[:, None] + torch.arange(min(self.kernel_size, L), device=x.device)
        logits = torch.einsum("bhld,bhlkd->bhlk", q, k[:, :, idx]) * q.shape[-1] ** -0.5
        logits = logits + self.rpb[:, idx - torch.arange(L, device=x.device)[:, None] + self.kernel_size - 1]
        y = torch.einsum("bhlk,bhlkd->bhld", logits.softmax(-1), v[:, :, idx])
        return self.proj(y.transpose(1, 2).reshape(B, L, C))


def build() -> nn.Module:
    return NeighborhoodAttention1D()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "window",
    "layout": "BLD",
    "inputs": {"x": (2, 9, 32)},
    "mask": None,
    "window": 3,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
