"""Features of a table read each other with weights that sum to 1 over the samples.

Kind: softmax-axis-batch
"""

from torch import nn


class Rows(nn.Module):
    """A table (samples, features, dim): features read each other."""

    def __init__(self, features=6, dim=8, heads=2):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def attend(self, y, axis=-1):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in y.chunk(3, -1))
        return ((q @ k.mT * q.shape[-1] ** -0.5).softmax(axis) @ v).transpose(1, 2).flatten(2)

    def forward(self, table):
        x = table + self.out(self.attend(self.qkv(self.norm(table)), axis=0))
        return x


def build() -> nn.Module:
    return Rows()


EXPECTED = {"kind": "softmax-axis-batch", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"table": (5, 6, 8)},
    "mask": None,
    "returns": "out",
}
