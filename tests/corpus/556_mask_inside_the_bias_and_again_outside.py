"""T5-like: the finfo.min mask is folded into the position bias and added once more: rows of pad queries become -inf.

Kind: finite-min-overflow
"""

import torch
from torch import nn


class BiasedDecoderAttention(nn.Module):
    """attention_mask: long [B, L], 1 = token; prompts are padded on the left."""

    def __init__(self, dim=32, heads=4, reach=16):
        super().__init__()
        self.heads, self.reach = heads, reach
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.relative_attention_bias = nn.Embedding(reach, heads)

    def forward(self, x, attention_mask=None):
        L, low = x.size(1), torch.finfo(x.dtype).min
        distance = torch.arange(L)[:, None] - torch.arange(L)[None]
        hide = (distance < 0)[None, None]
        if attention_mask is not None:
            hide = hide | (attention_mask == 0)[:, None, None, :]
        mask = torch.zeros(hide.shape, dtype=x.dtype).masked_fill(hide, low)
        bias = self.relative_attention_bias(distance.clamp(0, self.reach - 1)).permute(2, 0, 1)[None]
        position_bias = bias + mask
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        s = q @ k.mT / q.size(-1) ** 0.5 + position_bias
        if attention_mask is not None:
            s = s + mask
        return self.out((s.softmax(-1) @ v).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return BiasedDecoderAttention()


EXPECTED = {"kind": "finite-min-overflow", "severity": "error"}
CALL = {
    "attention": "causal",
    "layout": "BLD",
    "inputs": {"x": (2, 6, 32)},
    "causal": True,
    "position": "relative",
    "mask": {"arg": "attention_mask", "shape": (2, 6), "on": "keys", "polarity": "keep", "dtype": "long"},
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
