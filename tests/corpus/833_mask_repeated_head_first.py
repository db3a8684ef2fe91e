"""Scores are (batch * heads, ...), the mask is repeated as (heads * batch, ...).

Kind: mask-batch-head-order
"""

import torch
from torch import nn


class TimeFirst(nn.Module):
    """x: time, batch, channel. key_padding_mask: batch, time; True is padding."""

    def __init__(self, c=32, h=4):
        super().__init__()
        self.h, self.inp, self.out = h, nn.Linear(c, 3 * c), nn.Linear(c, c)

    def forward(self, x, key_padding_mask=None):
        t, b, c = x.shape
        q, k, v = (y.reshape(t, b * self.h, -1).transpose(0, 1) for y in self.inp(x).chunk(3, -1))
        s = torch.bmm(q, k.transpose(1, 2)) * (c // self.h) ** -0.5
        if key_padding_mask is not None:
            s = s.masked_fill(key_padding_mask.repeat(self.h, 1).unsqueeze(1), float("-inf"))
        y = torch.bmm(s.softmax(-1), v)
        return self.out(y.transpose(0, 1).reshape(t, b, c))


def build() -> nn.Module:
    return TimeFirst()


EXPECTED = {"kind": "mask-batch-head-order", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "LBD",
    "inputs": {"x": (6, 3, 32)},
    "mask": {"arg": "key_padding_mask", "shape": (3, 6), "on": "keys", "polarity": "drop", "dtype": "bool"},
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
