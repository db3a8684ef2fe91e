"""Parts of 24 queries; what fills no part keeps the zeros of the result, and a short input is nothing else.

Kind: chunk-tail
"""

import torch
from torch import nn


class FrugalReader(nn.Module):
    """All frames read all frames; the weights of `most` of them are in memory at a time."""

    def __init__(self, size=28, heads=2, most=24):
        super().__init__()
        self.heads, self.most = heads, most
        self.enter, self.leave = nn.Linear(size, 3 * size), nn.Linear(size, size)

    def forward(self, frames):
        q, k, v = self.enter(frames).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        read = torch.zeros_like(v)
        begin = 0
        while begin + self.most <= frames.shape[1]:
            rows = q[:, :, begin : begin + self.most]
            weights = (rows @ k.mT * k.shape[-1] ** -0.5).softmax(-1)
            read[:, :, begin : begin + self.most] = weights @ v
            begin += self.most
        return self.leave(read.transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return FrugalReader()


EXPECTED = {"kind": "chunk-tail", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"frames": (2, 31, 28)},
    "mask": None,
    "causal": False,
    "embed_dim": 28,
    "heads": 2,
    "head_dim": 14,
    "returns": "out",
}
