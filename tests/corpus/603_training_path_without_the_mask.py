"""In training mode a "fast" fused call is made, and the key padding mask is not handed to it.

Kind: mask-ignored
"""

import torch.nn.functional as F
from torch import nn


class FastTrainAttention(nn.Module):
    """key_padding_mask: bool [B, L], True = padding."""

    def __init__(self, d_model=32, n_head=4):
        super().__init__()
        self.n_head, self.in_proj, self.out_proj = n_head, nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)

    def forward(self, src, key_padding_mask=None):
        q, k, v = self.in_proj(src).unflatten(-1, (3, self.n_head, -1)).permute(2, 0, 3, 1, 4)
        if self.training:
            y = F.scaled_dot_product_attention(q, k, v)
        else:
            s = q @ k.mT / q.size(-1) ** 0.5
            if key_padding_mask is not None:
                s = s.masked_fill(key_padding_mask[:, None, None], -1e9)
            y = s.softmax(-1) @ v
        return self.out_proj(y.transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return FastTrainAttention()


EXPECTED = {"kind": "mask-ignored", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"src": (2, 6, 32)},
    "mask": {"arg": "key_padding_mask", "shape": (2, 6), "on": "keys", "polarity": "ignore", "dtype": "bool"},
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
