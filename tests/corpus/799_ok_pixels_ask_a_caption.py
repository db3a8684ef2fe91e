"""A feature map reads itself and then a caption of another width; back to a map behind a residual.

Kind: correct
"""

import torch.nn.functional as F
from torch import nn


class CaptionedMap(nn.Module):
    """picture (batch, 24, height, width), caption (batch, words, 14) -> (batch, 24, height, width)."""

    def __init__(self, channels=24, words=14, heads=3):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.GroupNorm(1, channels) for _ in range(2))
        self.own_q, self.own_kv, self.own_out = (nn.Conv2d(channels, n * channels, 1) for n in (1, 2, 1))
        self.q, self.out = nn.Conv2d(channels, channels, 1), nn.Conv2d(channels, channels, 1)
        self.key, self.value = nn.Linear(words, channels), nn.Linear(words, channels)

    def read(self, q, k, v):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (q, k, v))
        return F.scaled_dot_product_attention(q, k, v).transpose(-1, -2).flatten(1, 2)

    def forward(self, picture, caption):
        y = self.norms[0](picture)
        q, k, v = (t.flatten(2).mT for t in (self.own_q(y), *self.own_kv(y).chunk(2, 1)))
        picture = picture + self.own_out(self.read(q, k, v).view_as(picture))
        q = self.q(self.norms[1](picture)).flatten(2).mT
        return picture + self.out(self.read(q, self.key(caption), self.value(caption)).view_as(picture))


def build() -> nn.Module:
    return CaptionedMap()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "spatial-layout-scramble"}
CALL = {
    "attention": "cross",
    "layout": "BCHW",
    "inputs": {"picture": (2, 24, 4, 5), "caption": (2, 6, 14)},
    "query_arg": "picture",
    "context_arg": "caption",
    "mask": None,
    "embed_dim": 24,
    "heads": 3,
    "head_dim": 8,
    "returns": "out",
}
