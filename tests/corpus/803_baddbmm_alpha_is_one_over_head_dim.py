"""`alpha` of the batched product is 1 / head_dim; the paper that the docstring names divides by its root.

Kind: scale-dk-not-sqrt
"""

import torch
from torch import nn


class SelfAttention(nn.Module):
    """Scaled dot-product attention of Vaswani et al., 2017."""

    def __init__(self, channels=32, heads=2):
        super().__init__()
        self.heads, self.head_channels = heads, channels // heads
        self.in_proj = nn.Linear(channels, channels * 3)
        self.out_proj = nn.Linear(channels, channels)

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.in_proj(x).reshape(b, n, 3, self.heads, self.head_channels).permute(2, 0, 3, 1, 4).flatten(1, 2)
        empty = torch.empty(q.shape[0], n, n, dtype=q.dtype, device=q.device)
        scores = torch.baddbmm(empty, q, k.transpose(1, 2), beta=0, alpha=1 / self.head_channels)
        y = torch.bmm(scores.softmax(dim=-1), v)
        return self.out_proj(y.view(b, self.heads, n, -1).transpose(1, 2).reshape(b, n, c))


def build() -> nn.Module:
    return SelfAttention()


EXPECTED = {"kind": "scale-dk-not-sqrt", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 6, 32)},
    "mask": None,
    "embed_dim": 32,
    "heads": 2,
    "head_dim": 16,
    "returns": "out",
}
