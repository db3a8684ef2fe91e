"""Fusion layer: text reads itself (masked), then the image, whose width is another; returns the text.

Kind: correct
"""

from torch import nn


class FusionLayer(nn.Module):
    """text_mask: True = word."""

    def __init__(self, dim=32, image_dim=24, heads=4):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.cross_attn = nn.MultiheadAttention(dim, heads, kdim=image_dim, vdim=image_dim, batch_first=True)
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)

    def forward(self, text, image, text_mask=None):
        y = self.n1(text)
        drop = None if text_mask is None else ~text_mask
        text = text + self.self_attn(y, y, y, key_padding_mask=drop, need_weights=False)[0]
        return text + self.cross_attn(self.n2(text), image, image, need_weights=False)[0]


def build() -> nn.Module:
    return FusionLayer()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "cross",
    "layout": "BLD",
    "inputs": {"text": (2, 6, 32), "image": (2, 9, 24)},
    "mask": {"arg": "text_mask", "shape": (2, 6), "on": "query", "polarity": "keep", "dtype": "bool"},
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
