"""Soft alignment for inference: one similarity matrix, a softmax along each of its axes.

Kind: correct
"""

from torch import nn


class SoftmaxAttention(nn.Module):
    """premise (b, n, d), hypothesis (b, m, d); masks (b, n), (b, m) bool, True = word. Returns what each aligned to."""

    def __init__(self, dim=24):
        super().__init__()
        self.project = nn.Sequential(nn.Linear(dim, dim), nn.ReLU())

    def forward(self, premise, hypothesis, premise_mask=None, hypothesis_mask=None):
        e = self.project(premise) @ self.project(hypothesis).transpose(1, 2)
        rows, columns = e, e.transpose(1, 2)
        if hypothesis_mask is not None:
            rows = rows.masked_fill(~hypothesis_mask[:, None], -1e7)
        if premise_mask is not None:
            columns = columns.masked_fill(~premise_mask[:, None], -1e7)
        return rows.softmax(-1) @ hypothesis, columns.softmax(-1) @ premise


def build() -> nn.Module:
    return SoftmaxAttention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "cross",
    "layout": "BLD",
    "inputs": {"premise": (2, 5, 24), "hypothesis": (2, 7, 24)},
    "mask": {"arg": "hypothesis_mask", "shape": (2, 7), "on": "memory", "polarity": "keep", "dtype": "bool"},
    "returns": "(a, b)",
}
