"""Only keys are unit vectors, as the text says: how long a query is tells how sure it is.

Kind: correct
"""

import torch
import torch.nn.functional as F
from torch import nn


class SureQueries(nn.Module):
    """Keys have unit length. Unlike cosine attention, a query keeps its length, which says how sure it is."""

    def __init__(self, dim=28, heads=4):
        super().__init__()
        self.heads = heads
        self.kvq = nn.Linear(dim, 3 * dim)
        self.temperature = nn.Parameter(torch.linspace(4.0, 9.0, heads).view(heads, 1, 1))
        self.out = nn.Linear(dim, dim)

    def forward(self, x):
        k, v, q = self.kvq(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        k = F.normalize(k, dim=-1)
        weights = torch.softmax(self.temperature * torch.einsum("bhid,bhjd->bhij", q, k), dim=-1)
        return self.out(torch.einsum("bhij,bhjd->bihd", weights, v).flatten(2))


def build() -> nn.Module:
    return SureQueries()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "qknorm-wrong"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 9, 28)},
    "mask": None,
    "embed_dim": 28,
    "heads": 4,
    "head_dim": 7,
    "returns": "out",
}
