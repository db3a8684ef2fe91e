"""mu-P: scores divided by head_dim on purpose.

Kind: correct
"""

import torch.nn.functional as F
from torch import nn


class MuAttention(nn.Module):
    """Maximal update parametrisation: 1/d instead of 1/sqrt(d)."""

    def __init__(self, width=32, n_head=2):
        super().__init__()
        self.n_head, self.attn_scale = n_head, n_head / width
        self.wqkv, self.wo = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)

    def forward(self, x):
        q, k, v = self.wqkv(x).unflatten(-1, (3, self.n_head, -1)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, scale=self.attn_scale)
        return self.wo(y.transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return MuAttention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 6, 32)},
    "mask": None,
    "embed_dim": 32,
    "heads": 2,
    "head_dim": 16,
    "declared_scale": 0.0625,
    "returns": "out",
}
