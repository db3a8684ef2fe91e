"""Two-way cross attention: text is updated first, and the image then reads the updated text.

Kind: stream-asymmetry
"""

from torch import nn


class BiAttention(nn.Module):
    """Symmetric exchange between two streams of the same width; returns (left, right)."""

    def __init__(self, dim=24, heads=3):
        super().__init__()
        self.cross = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.norm = nn.LayerNorm(dim)

    def forward(self, left, right):
        left = self.norm(left + self.cross(left, right, right, need_weights=False)[0])
        right = self.norm(right + self.cross(right, left, left, need_weights=False)[0])
        return left, right


def build() -> nn.Module:
    return BiAttention()


EXPECTED = {"kind": "stream-asymmetry", "severity": "warning"}
CALL = {
    "attention": "cross",
    "layout": "BLD",
    "inputs": {"left": (2, 5, 24), "right": (2, 5, 24)},
    "mask": None,
    "embed_dim": 24,
    "heads": 3,
    "head_dim": 8,
    "returns": "(out, out)",
    "symmetric_inputs": ("left", "right"),
}
