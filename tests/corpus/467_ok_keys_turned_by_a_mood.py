"""A vector per item makes a low-rank part of the key projection; it is viewed with the width of the tokens.

Kind: correct
"""

import torch.nn.functional as F
from torch import nn


class MoodKeys(nn.Module):
    def __init__(self, dim=28, mood=5, heads=4, rank=2):
        super().__init__()
        self.heads, self.rank = heads, rank
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))
        self.make = nn.Sequential(nn.Linear(mood, 9), nn.GELU(), nn.Linear(9, 2 * rank * dim))

    def forward(self, x, mood):
        b, n, c = x.shape
        inward, outward = self.make(mood).view(b, 2, self.rank, c).unbind(1)
        k = self.k(x) + x @ inward.mT @ outward
        q, k, v = (t.view(b, n, self.heads, -1).transpose(1, 2) for t in (self.q(x), k, self.v(x)))
        return self.o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, c))


def build() -> nn.Module:
    return MoodKeys()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "wrong-source"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 6, 28), "mood": (2, 5)},
    "mask": None,
    "embed_dim": 28,
    "heads": 4,
    "head_dim": 7,
    "returns": "out",
}
