"""The docstring says True is a real token; the layer inside takes True for padding.

Kind: mask-inverted
"""

from torch import nn


class EncoderBlock(nn.Module):
    """x: (B, T, D); mask: (B, T) bool, True for real tokens."""

    def __init__(self, d_model=32, n_head=4):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.attn = nn.MultiheadAttention(d_model, n_head, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(d_model, 64), nn.GELU(), nn.Linear(64, d_model))

    def forward(self, x, mask=None):
        y = self.ln_1(x)
        x = x + self.attn(y, y, y, key_padding_mask=mask, need_weights=False)[0]
        return x + self.mlp(self.ln_2(x))


def build() -> nn.Module:
    return EncoderBlock()


EXPECTED = {"kind": "mask-inverted", "severity": "error"}
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
