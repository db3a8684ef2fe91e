"""Scores are k q^T, and their softmax runs over the last axis: that of the queries.

Kind: softmax-axis-query
"""

from torch import nn


class Reader(nn.Module):
    def __init__(self, dim=20):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(dim, dim) for _ in range(3))
        self.out = nn.Linear(dim, dim)

    def forward(self, x, context):
        q, k, v = self.query(x), self.key(context), self.value(context)
        scores = k @ q.mT / q.shape[-1] ** 0.5  # (B, S, T)
        return self.out(scores.softmax(-1).mT @ v)


def build() -> nn.Module:
    return Reader()


EXPECTED = {"kind": "softmax-axis-query", "severity": "error"}
CALL = {
    "attention": "cross",
    "layout": "BLD",
    "inputs": {"x": (2, 4, 20), "context": (2, 7, 20)},
    "mask": None,
    "embed_dim": 20,
    "heads": 1,
    "head_dim": 20,
    "returns": "out",
}
