"""The mask goes into `scores`, the softmax reads `attn`.

Kind: mask-ignored
"""

import torch.nn.functional as F
from torch import nn


class MHSA(nn.Module):
    def __init__(self, embed_dim=32, num_heads=4):
        super().__init__()
        self.num_heads = num_heads
        self.qkv_proj, self.o_proj = nn.Linear(embed_dim, 3 * embed_dim), nn.Linear(embed_dim, embed_dim)

    def forward(self, x, key_padding_mask=None):
        B, L, E = x.shape
        q, k, v = self.qkv_proj(x).reshape(B, L, self.num_heads, -1).permute(0, 2, 1, 3).chunk(3, dim=-1)
        attn = q @ k.transpose(-2, -1) / q.size(-1) ** 0.5
        if key_padding_mask is not None:
            scores = attn.masked_fill(key_padding_mask[:, None, None], float("-inf"))  # noqa: F841
        attn = F.softmax(attn, dim=-1)
        return self.o_proj((attn @ v).permute(0, 2, 1, 3).reshape(B, L, E))


def build() -> nn.Module:
    return MHSA()


EXPECTED = {"kind": "mask-ignored", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 6, 32)},
    "mask": {"arg": "key_padding_mask", "shape": (2, 6), "on": "keys", "polarity": "drop", "dtype": "bool"},
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
