"""Each sentence has one score, (batch, sentences, 1), and the softmax runs over the axis of one.

Kind: softmax-axis-singleton
"""

import torch
from torch import nn


class ReviewVector(nn.Module):
    """Sentences (batch, count, width) to a review (batch, classes), by their importance."""

    def __init__(self, width=26, inner=16, classes=5):
        super().__init__()
        self.inner = nn.Linear(width, inner)
        self.importance = nn.Linear(inner, 1, bias=False)
        self.classes = nn.Linear(width, classes)

    def forward(self, sentences):
        score = self.importance(torch.tanh(self.inner(sentences)))
        review = (score.softmax(-1) * sentences).sum(1)
        return self.classes(review)


def build() -> nn.Module:
    return ReviewVector()


EXPECTED = {"kind": "softmax-axis-singleton", "severity": "error"}
CALL = {"attention": "pool", "layout": "BLD", "inputs": {"sentences": (3, 8, 26)}, "mask": None, "returns": "(B, 5)"}
