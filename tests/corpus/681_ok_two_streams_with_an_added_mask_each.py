"""Two streams of unlike lengths and widths, each with a mask of its own that is added to the scores.

Kind: correct
"""

from torch import nn


class TwoWay(nn.Module):
    """Pictures and words read each other; hide_a and hide_b are added to the scores of their own stream's keys, (batch, 1, 1, keys)."""

    def __init__(self, wide_a=20, wide_b=28, dim=24, heads=3):
        super().__init__()
        self.heads = heads
        self.qkv_a, self.qkv_b = nn.Linear(wide_a, 3 * dim), nn.Linear(wide_b, 3 * dim)

    def split(self, y):
        return (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in y.chunk(3, -1))

    def forward(self, a, hide_a, b, hide_b):
        qa, ka, va = self.split(self.qkv_a(a))
        qb, kb, vb = self.split(self.qkv_b(b))
        root = qa.shape[-1] ** -0.5
        from_b = (qa @ kb.mT * root + hide_b).softmax(-1) @ vb
        from_a = (qb @ ka.mT * root + hide_a).softmax(-1) @ va
        return from_b.transpose(1, 2).flatten(2), from_a.transpose(1, 2).flatten(2)


def build() -> nn.Module:
    return TwoWay()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "cross",
    "layout": "BLD",
    "inputs": {"a": (2, 5, 20), "b": (2, 7, 28)},
    "mask": {"arg": "hide_b", "shape": (2, 1, 1, 7), "on": "keys", "polarity": "additive", "dtype": "float"},
    "returns": "(a, b)",
}
