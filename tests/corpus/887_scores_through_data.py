"""`.data` stops the gradient at the weights: queries and keys never learn.

Kind: gradient-cut
"""

import torch
from torch import nn


class Attn(nn.Module):
    def __init__(self, d=32, h=4):
        super().__init__()
        self.h = h
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))

    def forward(self, query, memory):
        q, k, v = (
            t.unflatten(-1, (self.h, -1)).transpose(1, 2) for t in (self.q(query), self.k(memory), self.v(memory))
        )
        p = torch.softmax((q @ k.mT / q.shape[-1] ** 0.5).data, dim=-1)
        return self.o((p @ v).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return Attn()


EXPECTED = {"kind": "gradient-cut", "severity": "error"}
CALL = {
    "attention": "cross",
    "layout": "BLD",
    "inputs": {"query": (2, 4, 32), "memory": (2, 6, 32)},
    "mask": None,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
