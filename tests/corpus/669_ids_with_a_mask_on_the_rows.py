"""An encoder on three streams of ids whose mask hides rows in place of columns.

Kind: mask-query-axis
"""

from torch import nn


class Encoder(nn.Module):
    """Three streams of ids, all (batch, words): the words, their segment, their place; attention_mask: (batch, words), 1 = word."""

    def __init__(self, words=60, dim=32, heads=4):
        super().__init__()
        self.words, self.kinds, self.places = nn.Embedding(words, dim), nn.Embedding(2, dim), nn.Embedding(20, dim)
        self.norm, self.qkv, self.out, self.heads = (
            nn.LayerNorm(dim),
            nn.Linear(dim, 3 * dim),
            nn.Linear(dim, dim),
            heads,
        )

    def forward(self, input_ids, token_type_ids, position_ids, attention_mask):
        x = self.norm(self.words(input_ids) + self.kinds(token_type_ids) + self.places(position_ids))
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        score = q @ k.mT * q.shape[-1] ** -0.5 + (1 - attention_mask[:, None, :, None].to(x.dtype)) * -10000.0
        return x + self.out((score.softmax(-1) @ v).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return Encoder()


EXPECTED = {"kind": "mask-query-axis", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BL",
    "inputs": {"input_ids": (2, 6)},
    "mask": {"arg": "attention_mask", "shape": (2, 6), "on": "keys", "polarity": "keep", "dtype": "long"},
    "returns": "out",
}
