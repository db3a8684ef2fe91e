"""Parts compete for pixels: scores are k q^T, the softmax runs over the parts, then each part averages over the pixels.

Kind: correct
"""

import torch
from torch import nn


class Parts(nn.Module):
    def __init__(self, channels=10, parts=6, width=16, rounds=2):
        super().__init__()
        self.rounds, self.width = rounds, width
        self.seed = nn.Parameter(torch.randn(1, parts, width) / 4)
        self.to_k, self.to_v = nn.Linear(channels, width), nn.Linear(channels, width)
        self.to_q, self.norm = nn.Linear(width, width), nn.LayerNorm(width)
        self.update = nn.GRUCell(width, width)

    def forward(self, pixels):
        parts = self.seed.repeat(len(pixels), 1, 1)
        k, v = self.to_k(pixels), self.to_v(pixels)
        for _ in range(self.rounds):
            logits = k @ self.to_q(self.norm(parts)).mT / self.width**0.5
            share = logits.softmax(-1) + 1e-8
            mean = (share / share.sum(1, keepdim=True)).mT @ v
            parts = self.update(mean.reshape(-1, self.width), parts.reshape(-1, self.width)).view_as(parts)
        return parts


def build() -> nn.Module:
    return Parts()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "weights-transposed"}
CALL = {"attention": "slots", "layout": "BLD", "inputs": {"pixels": (2, 9, 10)}, "mask": None, "returns": "out"}
