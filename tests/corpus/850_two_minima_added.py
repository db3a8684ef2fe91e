"""Minimum of the dtype for the future plus minimum of the dtype for padding is -inf; left padding has rows of nothing else.

Kind: finite-min-overflow
"""

import torch
from torch import nn


class DecoderAttention(nn.Module):
    """attention_mask: (batch, tokens), 1 = token, 0 = padding (left or right)"""

    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads, self.qkv, self.proj = heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x, attention_mask=None):
        n, low = x.shape[1], torch.finfo(x.dtype).min
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        bias = torch.full((n, n), low, dtype=x.dtype, device=x.device).triu(1)[None, None]
        if attention_mask is not None:
            pad = (1 - attention_mask.to(x.dtype)) * low
            bias = bias + pad[:, None, None] + pad[:, None, :, None]
        s = q @ k.mT * q.shape[-1] ** -0.5 + bias
        return self.proj((s.softmax(-1) @ v).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return DecoderAttention()


EXPECTED = {"kind": "finite-min-overflow", "severity": "error"}
CALL = {
    "attention": "causal",
    "layout": "BLD",
    "inputs": {"x": (2, 6, 32)},
    "mask": {"arg": "attention_mask", "shape": (2, 6), "on": "keys", "polarity": "keep", "dtype": "long"},
    "causal": True,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
