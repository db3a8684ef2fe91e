"""Features of a table read each other, and samples the other samples, on purpose.

Kind: correct
"""

from torch import nn


class Rows(nn.Module):
    """A table (samples, features, dim): features read each other, then samples read the other samples."""

    def __init__(self, features=6, dim=8, heads=2):
        super().__init__()
        self.heads, wide = heads, features * dim
        self.norm, self.across = nn.LayerNorm(dim), nn.LayerNorm(wide)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.qkv_across, self.out_across = nn.Linear(wide, 3 * wide), nn.Linear(wide, wide)

    def attend(self, y, axis=-1):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in y.chunk(3, -1))
        return ((q @ k.mT * q.shape[-1] ** -0.5).softmax(axis) @ v).transpose(1, 2).flatten(2)

    def forward(self, table):
        x = table + self.out(self.attend(self.qkv(self.norm(table))))
        y = self.across(x.flatten(1))[None]  # one sequence of samples
        return x + self.out_across(self.attend(self.qkv_across(y)))[0].view_as(x)


def build() -> nn.Module:
    return Rows()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"table": (5, 6, 8)},
    "mask": None,
    "returns": "out",
}
