"""Graph attention v2 on dense graphs; each node is its own neighbour, so no row is empty.

Kind: correct
"""

import torch
import torch.nn.functional as F
from torch import nn


class GATv2(nn.Module):
    """h: (batch, nodes, in), adj: (batch, nodes, nodes), non-zero = edge."""

    def __init__(self, in_features=16, out_features=8, heads=2):
        super().__init__()
        self.heads = heads
        self.left, self.right = (
            nn.Linear(in_features, heads * out_features),
            nn.Linear(in_features, heads * out_features),
        )
        self.a = nn.Parameter(torch.randn(heads, out_features))

    def forward(self, h, adj):
        a, r = self.left(h).unflatten(-1, (self.heads, -1)), self.right(h).unflatten(-1, (self.heads, -1))
        e = torch.einsum("bijhd,hd->bhij", F.leaky_relu(a[:, :, None] + r[:, None], 0.2), self.a)
        edge = (adj != 0) | torch.eye(h.shape[1], dtype=torch.bool, device=h.device)
        w = e.masked_fill(~edge[:, None], float("-inf")).softmax(-1)
        return torch.einsum("bhij,bjhd->bihd", w, r).flatten(2)


def build() -> nn.Module:
    return GATv2()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"h": (2, 6, 16)},
    "mask": {"arg": "adj", "shape": (2, 6, 6), "on": "pairs", "polarity": "keep", "dtype": "float"},
    "returns": "out",
}
