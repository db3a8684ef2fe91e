"""Divided attention for video: over frames at each place, then over places in each frame.

Kind: correct
"""

from torch import nn


class DividedSpaceTime(nn.Module):
    """x: (batch, frames, patches, dim)"""

    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.time, self.space = (nn.MultiheadAttention(dim, heads, batch_first=True) for _ in range(2))
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)

    def forward(self, x):
        b, f, n, d = x.shape
        t = self.n1(x).transpose(1, 2).reshape(b * n, f, d)
        x = x + self.time(t, t, t, need_weights=False)[0].reshape(b, n, f, d).transpose(1, 2)
        s = self.n2(x).reshape(b * f, n, d)
        return x + self.space(s, s, s, need_weights=False)[0].reshape(b, f, n, d)


def build() -> nn.Module:
    return DividedSpaceTime()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "self",
    "layout": "BTND",
    "inputs": {"x": (2, 3, 4, 32)},
    "mask": None,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
