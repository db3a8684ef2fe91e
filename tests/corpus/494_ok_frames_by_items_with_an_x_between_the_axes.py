"""Sequence first throughout, and the shapes in its comments have an x between the axes.

Kind: correct
"""

import torch
from torch import nn


class SpeechReader(nn.Module):
    """frames: T x B x D; blank: B x T, True on frames that pad."""

    def __init__(self, dim=18, heads=3):
        super().__init__()
        self.heads = heads
        self.norm, self.qkv, self.out = nn.LayerNorm(dim), nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, frames, blank=None):
        if blank is None:
            blank = torch.zeros(frames.shape[1], frames.shape[0], dtype=torch.bool)
        x = self.norm(frames).transpose(0, 1)  # B x T x D
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        score = (q @ k.mT * q.shape[-1] ** -0.5).masked_fill(blank[:, None, None], torch.finfo(q.dtype).min)
        y = (score.softmax(-1) @ v).transpose(1, 2).flatten(2)
        return frames + self.out(y).transpose(0, 1)


def build() -> nn.Module:
    return SpeechReader()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "batch-first"}
CALL = {
    "attention": "self",
    "layout": "LBD",
    "inputs": {"frames": (7, 3, 18), "blank": (3, 7)},
    "mask": {"arg": "blank", "shape": (3, 7), "on": "self", "polarity": "hide", "dtype": "bool"},
    "embed_dim": 18,
    "heads": 3,
    "head_dim": 6,
    "returns": "out",
}
