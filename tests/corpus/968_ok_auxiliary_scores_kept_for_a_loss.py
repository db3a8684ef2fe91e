"""A head on the attention output is kept in an attribute for the loss; the default list argument is only read.

Kind: correct
"""

import torch.nn.functional as F
from torch import nn


class WithAuxiliary(nn.Module):
    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads, self.qkv, self.proj, self.aux = (
            heads,
            nn.Linear(dim, 3 * dim),
            nn.Linear(dim, dim),
            nn.Linear(dim, 1),
        )
        self.last_scores = None

    def forward(self, x, scale_by=[1.0]):  # noqa: B006
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        self.last_scores = self.aux(y)
        return self.proj(y) * sum(scale_by)


def build() -> nn.Module:
    return WithAuxiliary()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 6, 32)},
    "mask": None,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
