"""Attention hides the padding; the sentence vector is the mean over all positions.

Kind: padding-leak-nonattention
"""

from torch import nn


class SentenceEncoder(nn.Module):
    """(batch, words, dim), mask (batch, words) with True for words -> (batch, dim)"""

    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.attn = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x, mask):
        y, _ = self.attn(x, x, x, key_padding_mask=~mask, need_weights=False)
        return self.norm(x + y).mean(dim=1)


def build() -> nn.Module:
    return SentenceEncoder()


EXPECTED = {"kind": "padding-leak-nonattention", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 6, 32)},
    "mask": {"arg": "mask", "shape": (2, 6), "on": "keys", "polarity": "keep", "dtype": "bool"},
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
