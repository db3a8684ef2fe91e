"""`h` is computed by the attention and then computed again from `x`.

Kind: output-unused
"""

from torch import nn


class PreNormBlock(nn.Module):
    def __init__(self, d_model=32, n_heads=4):
        super().__init__()
        self.attn_norm, self.ffn_norm = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.attn = nn.MultiheadAttention(d_model, n_heads, batch_first=True)
        self.ffn = nn.Sequential(nn.Linear(d_model, 2 * d_model), nn.SiLU(), nn.Linear(2 * d_model, d_model))

    def forward(self, x):
        y = self.attn_norm(x)
        h = x + self.attn(y, y, y, need_weights=False)[0]
        h = x + self.ffn(self.ffn_norm(x))
        return h


def build() -> nn.Module:
    return PreNormBlock()


EXPECTED = {"kind": "output-unused", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 6, 32)},
    "mask": None,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
