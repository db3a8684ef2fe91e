"""A causal mask from a comparison of positions: j <= i + 1.

Kind: causal-off-by-one
"""

import torch
from torch import nn


class CausalAttention(nn.Module):
    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads = heads
        self.c_qkv = nn.Conv1d(dim, 3 * dim, kernel_size=1)
        self.c_out = nn.Conv1d(dim, dim, kernel_size=1)

    def forward(self, x):
        """x: [B, C, T] -> [B, C, T]."""
        B, C, T = x.shape
        q, k, v = self.c_qkv(x).view(B, 3, self.heads, C // self.heads, T).unbind(1)
        pos = torch.arange(T, device=x.device)
        visible = pos[None, :] <= pos[:, None] + 1
        w = torch.einsum("bhct,bhcs->bhts", q, k) / (C // self.heads) ** 0.5
        w = w.masked_fill(~visible, float("-inf")).softmax(-1)
        return self.c_out(torch.einsum("bhts,bhcs->bhct", w, v).reshape(B, C, T))


def build() -> nn.Module:
    return CausalAttention()


EXPECTED = {"kind": "causal-off-by-one", "severity": "error"}
CALL = {
    "attention": "causal",
    "layout": "BCL",
    "inputs": {"x": (2, 32, 6)},
    "mask": None,
    "causal": True,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
