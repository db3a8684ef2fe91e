"""Weeks of every shop are meant to be read in order, and the view takes the next shops of the same week for later weeks.

Kind: spatial-layout-scramble
"""

from torch import nn


class AlongOneAxis(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.norm = heads, nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        y = (q @ k.mT * q.shape[-1] ** -0.5).softmax(-1) @ v
        return x + self.out(y.transpose(1, 2).flatten(2))


class Sales(nn.Module):
    """x: (items, weeks, shops, dim). Weeks of one shop, then shops of one week."""

    def __init__(self, dim=20, heads=2):
        super().__init__()
        self.weeks, self.shops = AlongOneAxis(dim, heads), AlongOneAxis(dim, heads)
        self.last = nn.Linear(dim, dim)

    def forward(self, x):
        items, weeks, shops, dim = x.shape
        x = self.weeks(x.reshape(items * shops, weeks, dim)).reshape(items, weeks, shops, dim)
        x = self.shops(x.flatten(0, 1)).view(items, weeks, shops, dim)
        return x + self.last(x.relu())


def build() -> nn.Module:
    return Sales()


EXPECTED = {"kind": "spatial-layout-scramble", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BTND",
    "inputs": {"x": (2, 4, 6, 20)},
    "mask": None,
    "axes": "weeks, then shops",
    "embed_dim": 20,
    "heads": 2,
    "head_dim": 10,
    "returns": "out",
}
