"""Without gradients a cheaper path averages the results of key blocks instead of combining their softmaxes.

Kind: path-mismatch
"""

import torch
from torch import nn


class BlockwiseInference(nn.Module):
    def __init__(self, dim=32, heads=2):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        q = q * q.size(-1) ** -0.5
        if torch.is_grad_enabled():
            y = torch.softmax(q @ k.mT, -1) @ v
        else:
            pieces = [torch.softmax(q @ a.mT, -1) @ b for a, b in zip(k.chunk(2, 2), v.chunk(2, 2), strict=True)]
            y = torch.stack(pieces).mean(0)
        return self.out(y.transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return BlockwiseInference()


EXPECTED = {"kind": "path-mismatch", "severity": "error"}
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
