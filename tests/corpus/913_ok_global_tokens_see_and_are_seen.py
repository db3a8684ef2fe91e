"""Local band of two to each side plus two global tokens in front.

Kind: correct
"""

import torch
from torch import nn


class LocalGlobalAttention(nn.Module):
    def __init__(self, dim=32, heads=4, radius=2, num_global_tokens=2):
        super().__init__()
        self.heads, self.radius, self.num_global_tokens = heads, radius, num_global_tokens
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        i = torch.arange(x.shape[1], device=x.device)
        near = (i[:, None] - i[None]).abs() <= self.radius
        glob = i < self.num_global_tokens
        keep = near | glob[:, None] | glob[None]
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        s = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~keep, torch.finfo(q.dtype).min)
        return self.proj((s.softmax(-1) @ v).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return LocalGlobalAttention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 14, 32)},
    "mask": None,
    "window": 5,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
