"""Block causal: a token sees its whole frame and all earlier frames.

Kind: correct
"""

import torch
import torch.nn.functional as F
from torch import nn


class FrameCausalAttention(nn.Module):
    def __init__(self, dim=32, heads=4, tokens_per_frame=4):
        super().__init__()
        self.heads, self.tokens_per_frame = heads, tokens_per_frame
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        frame = torch.arange(x.shape[1], device=x.device) // self.tokens_per_frame
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=frame[:, None] >= frame[None, :])
        return self.proj(y.transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return FrameCausalAttention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 12, 32)},
    "mask": None,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
