"""A patient's visits are aged from the newest, which comes last, by an embedding added to the keys: what is padded stands in front.

Kind: correct
"""

import torch
import torch.nn.functional as F
from torch import nn


class VisitReader(nn.Module):
    """questions (items, n, size); visits (items, m, size), oldest first; valid (items, m): True where there was a visit."""

    def __init__(self, size=20, heads=2, oldest=40):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.out = (nn.Linear(size, size) for _ in range(4))
        self.age = nn.Embedding(oldest, size)

    def split(self, t):
        return t.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, questions, visits, valid=None):
        ages = torch.arange(visits.shape[1], device=visits.device).flip(0)
        k = self.k(visits) + self.age(ages)
        hide = None if valid is None else valid[:, None, None].bool()
        read = F.scaled_dot_product_attention(
            self.split(self.q(questions)), self.split(k), self.split(self.v(visits)), hide
        )
        return self.out(read.transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return VisitReader()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "mask-shifted"}
CALL = {
    "attention": "cross",
    "layout": "BLD",
    "inputs": {"questions": (2, 4, 20), "visits": (2, 9, 20)},
    "query_arg": "questions",
    "context_arg": "visits",
    "mask": {"arg": "valid", "shape": (2, 9), "on": "context", "polarity": "keep", "dtype": "bool"},
    "embed_dim": 20,
    "heads": 2,
    "head_dim": 10,
    "returns": "out",
}
