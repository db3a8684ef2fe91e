"""Keys and values of the groups are stretched channel by channel, and cut into heads afterwards.

Kind: gqa-repeat-axis
"""

from torch import nn


class SharedKeys(nn.Module):
    """Eight query heads, two heads of keys and values; x: (batch, length, width)."""

    def __init__(self, width=64, heads=8, kv_heads=2):
        super().__init__()
        self.heads, self.kv_heads, self.size = heads, kv_heads, width // heads
        self.ask = nn.Linear(width, width)
        self.keys = nn.Linear(width, kv_heads * self.size)
        self.values = nn.Linear(width, kv_heads * self.size)
        self.out = nn.Linear(width, width)

    def spread(self, rows):
        wide = rows.unsqueeze(-1).expand(*rows.shape, self.heads // self.kv_heads).flatten(-2)
        return wide.unflatten(-1, (self.heads, self.size)).transpose(1, 2)

    def forward(self, x):
        q = self.ask(x).unflatten(-1, (self.heads, self.size)).transpose(1, 2)
        k, v = self.spread(self.keys(x)), self.spread(self.values(x))
        weights = (q @ k.mT * self.size**-0.5).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return SharedKeys()


EXPECTED = {"kind": "gqa-repeat-axis", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 9, 64)},
    "mask": None,
    "embed_dim": 64,
    "heads": 8,
    "kv_heads": 2,
    "head_dim": 8,
    "returns": "out",
}
