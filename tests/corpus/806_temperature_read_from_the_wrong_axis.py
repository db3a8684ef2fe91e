"""After the transposition the last axis of the keys is their number, and that is what the root is taken of.

Kind: scale-wrong-size
"""

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, d=32, h=4):
        super().__init__()
        self.h = h
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(d, d) for _ in range(4))

    def forward(self, q, kv):
        b, n, d = q.shape
        q = self.wq(q).view(b, n, self.h, -1).permute(0, 2, 1, 3)
        k = self.wk(kv).view(b, kv.shape[1], self.h, -1).permute(0, 2, 3, 1)
        v = self.wv(kv).view(b, kv.shape[1], self.h, -1).permute(0, 2, 1, 3)
        w = torch.softmax(q @ k / k.shape[-1] ** 0.5, dim=-1)
        return self.wo((w @ v).permute(0, 2, 1, 3).reshape(b, n, d))


def build() -> nn.Module:
    return Attention()


EXPECTED = {"kind": "scale-wrong-size", "severity": "error"}
CALL = {
    "attention": "cross",
    "layout": "BLD",
    "inputs": {"q": (2, 3, 32), "kv": (2, 9, 32)},
    "mask": None,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
