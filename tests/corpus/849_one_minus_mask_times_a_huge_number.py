"""In float16 the constant becomes -inf, and 0 * -inf is NaN for each visible key.

Kind: half-overflow-mask
"""

import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, hidden=32, heads=4):
        super().__init__()
        self.heads, self.qkv, self.dense = heads, nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.register_buffer("far", torch.tensor(-1e8), persistent=False)

    def forward(self, x, attention_mask=None):
        """attention_mask: (batch, tokens), 1 for tokens, 0 for padding"""
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        scores = q @ k.mT * q.shape[-1] ** -0.5
        if attention_mask is not None:
            attention_mask = attention_mask.to(dtype=scores.dtype)
            scores = scores + ((1.0 - attention_mask) * self.far.to(scores.dtype))[:, None, None, :]
        return self.dense((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return Layer()


EXPECTED = {"kind": "half-overflow-mask", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 6, 32)},
    "mask": {"arg": "attention_mask", "shape": (2, 6), "on": "keys", "polarity": "keep", "dtype": "float"},
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
