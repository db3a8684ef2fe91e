"""The mask constant -1e9 is a buffer; model.half() turns it into -inf, and 0 * -inf is NaN for every real token.

Kind: half-overflow-mask
"""

import torch
from torch import nn


class MaskedAttention(nn.Module):
    """attention_mask: float [B, L], 1 = attend."""

    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))
        self.register_buffer("masked_bias", torch.tensor(-1e9), persistent=False)

    def forward(self, x, attention_mask=None):
        q, k, v = (f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
        s = q @ k.transpose(-1, -2) * q.size(-1) ** -0.5
        if attention_mask is not None:
            s = s + (1.0 - attention_mask.to(s.dtype))[:, None, None, :] * self.masked_bias
        return self.o((torch.softmax(s, -1) @ v).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return MaskedAttention()


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
