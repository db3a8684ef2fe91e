"""Keys are unit vectors, and scores are divided by the length of the query after the product: that is a cosine too.

Kind: correct
"""

import torch
import torch.nn.functional as F
from torch import nn


class Compass(nn.Module):
    """Scaled cosine attention: a learned temperature for each head, and only directions count."""

    def __init__(self, dim=28, heads=4):
        super().__init__()
        self.heads = heads
        self.kvq = nn.Linear(dim, 3 * dim)
        self.temperature = nn.Parameter(torch.linspace(4.0, 9.0, heads).view(heads, 1, 1))
        self.out = nn.Linear(dim, dim)

    def forward(self, x):
        k, v, q = self.kvq(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        cosines = torch.einsum("bhid,bhjd->bhij", q, F.normalize(k, dim=-1)) / q.norm(dim=-1, keepdim=True)
        weights = torch.softmax(self.temperature * cosines, dim=-1)
        return self.out(torch.einsum("bhij,bhjd->bihd", weights, v).flatten(2))


def build() -> nn.Module:
    return Compass()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "qknorm-wrong"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 9, 28)},
    "mask": None,
    "qk_norm": True,
    "embed_dim": 28,
    "heads": 4,
    "head_dim": 7,
    "returns": "out",
}
