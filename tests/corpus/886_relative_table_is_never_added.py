"""The relative position table exists, its bias is computed, and the scores never see it.

Kind: unused-parameters
"""

import torch
from torch import nn


class RelPosAttention(nn.Module):
    def __init__(self, dim=32, heads=4, max_len=32):
        super().__init__()
        self.heads, self.max_len = heads, max_len
        self.rel_bias = nn.Embedding(2 * max_len - 1, heads)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        n = x.shape[1]
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        i = torch.arange(n, device=x.device)
        bias = self.rel_bias(i[:, None] - i[None] + self.max_len - 1).permute(2, 0, 1)  # noqa: F841
        scores = q @ k.mT / q.shape[-1] ** 0.5
        return self.proj((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return RelPosAttention()


EXPECTED = {"kind": "unused-parameters", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 9, 32)},
    "mask": None,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
