"""A sentence encoder on ids: padding id 0 is hidden and left out of the mean; returns a dict.

Kind: correct
"""

import torch
from torch import nn


class SentenceEncoder(nn.Module):
    """input_ids: (batch, tokens) long, 0 = padding."""

    def __init__(self, vocab_size=50, dim=32, heads=4, max_len=32):
        super().__init__()
        self.embed, self.pos = nn.Embedding(vocab_size, dim, padding_idx=0), nn.Embedding(max_len, dim)
        self.heads, self.qkv, self.proj, self.norm = (
            heads,
            nn.Linear(dim, 3 * dim),
            nn.Linear(dim, dim),
            nn.LayerNorm(dim),
        )

    def forward(self, input_ids):
        real = input_ids != 0
        x = self.embed(input_ids) + self.pos(torch.arange(input_ids.shape[1], device=input_ids.device))
        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        s = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~real[:, None, None], torch.finfo(q.dtype).min)
        x = x + self.proj((s.softmax(-1) @ v).transpose(1, 2).flatten(2))
        weight = real.to(x)[..., None]
        return {"tokens": x, "sentence": (x * weight).sum(1) / weight.sum(1).clamp(min=1)}


def build() -> nn.Module:
    return SentenceEncoder()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "self",
    "layout": "BL",
    "inputs": {"input_ids": (2, 7)},
    "mask": None,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "dict",
}
