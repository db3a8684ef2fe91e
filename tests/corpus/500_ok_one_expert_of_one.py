"""A router over as many experts as the author asks for, and here it is one: its softmax is 1.

Kind: correct
"""

from torch import nn


class Experts(nn.Module):
    """x: (items, tokens, dim). Attention, then every expert, weighted by the router."""

    def __init__(self, dim=20, heads=2, experts=1):
        super().__init__()
        self.heads, self.router = heads, nn.Linear(dim, experts)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.experts = nn.ModuleList(nn.Linear(dim, dim) for _ in range(experts))

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        weight = (q @ k.mT * q.shape[-1] ** -0.5).softmax(-1)
        x = x + self.out((weight @ v).transpose(1, 2).flatten(2))
        share = self.router(x).softmax(-1)
        return x + sum(share[..., i : i + 1] * expert(x) for i, expert in enumerate(self.experts))


def build() -> nn.Module:
    return Experts()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "softmax-axis-singleton"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 7, 20)},
    "mask": None,
    "embed_dim": 20,
    "heads": 2,
    "head_dim": 10,
    "returns": "out",
}
