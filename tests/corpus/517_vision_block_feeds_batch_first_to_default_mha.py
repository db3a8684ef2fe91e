"""A ViT block hands [batch, patches, dim] to nn.MultiheadAttention, whose default is [length, batch, dim].

Kind: batch-first
"""

from collections import OrderedDict

from torch import nn


class ResidualAttentionBlock(nn.Module):
    def __init__(self, d_model: int = 32, n_head: int = 4):
        super().__init__()
        self.attn = nn.MultiheadAttention(d_model, n_head)
        self.ln_1 = nn.LayerNorm(d_model)
        self.mlp = nn.Sequential(
            OrderedDict(
                [
                    ("c_fc", nn.Linear(d_model, d_model * 4)),
                    ("gelu", nn.GELU()),
                    ("c_proj", nn.Linear(d_model * 4, d_model)),
                ]
            )
        )
        self.ln_2 = nn.LayerNorm(d_model)

    def forward(self, patches):
        """patches: [batch, patches, dim]."""
        y = self.ln_1(patches)
        patches = patches + self.attn(y, y, y, need_weights=False)[0]
        return patches + self.mlp(self.ln_2(patches))


def build() -> nn.Module:
    return ResidualAttentionBlock()


EXPECTED = {"kind": "batch-first", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"patches": (3, 5, 32)},
    "mask": None,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
