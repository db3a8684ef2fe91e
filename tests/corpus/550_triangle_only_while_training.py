"""`if self.training` around the causal mask: evaluation sees the future.

Kind: causal-missing
"""

from torch import nn


class TinyGPTBlock(nn.Module):
    def __init__(self, d=32, h=4):
        super().__init__()
        self.h = h
        self.norm, self.attn = nn.LayerNorm(d), nn.MultiheadAttention(d, h, batch_first=True)
        self.ffn = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def forward(self, x):
        mask = None
        if self.training:
            mask = nn.Transformer.generate_square_subsequent_mask(x.size(1), dtype=x.dtype)
        y = self.norm(x)
        y, _ = self.attn(y, y, y, attn_mask=mask)
        x = x + y
        return x + self.ffn(x)


def build() -> nn.Module:
    return TinyGPTBlock()


EXPECTED = {"kind": "causal-missing", "severity": "error"}
CALL = {
    "attention": "causal",
    "layout": "BLD",
    "inputs": {"x": (2, 6, 32)},
    "mask": None,
    "causal": True,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
