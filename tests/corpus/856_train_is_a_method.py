"""`training=bool(self.train)`: a method is always true.

Kind: dropout-in-eval
"""

import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    def __init__(self, dim=32, heads=4, p=0.1):
        super().__init__()
        self.heads, self.p, self.qkv, self.proj = heads, p, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        w = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
        w = F.dropout(w, self.p, training=bool(self.train))
        return self.proj((w @ v).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return Attention()


EXPECTED = {"kind": "dropout-in-eval", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 6, 32)},
    "mask": None,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
