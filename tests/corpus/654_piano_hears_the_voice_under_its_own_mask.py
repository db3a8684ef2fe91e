"""The piano reads the voice, masked with the piano's beats: it fits where both have one length, and rests of the voice are heard.

Kind: mask-wrong-source
"""

import torch
from torch import nn


class Duet(nn.Module):
    """Two voices read each other. voice_mask, piano_mask: (batch, beats), True on a beat that is played."""

    def __init__(self, voice=10, piano=26, width=24, heads=3):
        super().__init__()
        self.heads = heads
        self.voice_in, self.piano_in = nn.Linear(voice, width), nn.Linear(piano, width)
        self.to_voice, self.to_piano = (nn.ModuleList(nn.Linear(width, width) for _ in range(3)) for _ in range(2))

    def read(self, maps, asks, answers, played):
        q, k, v = (m(t).unflatten(2, (self.heads, -1)) for m, t in zip(maps, (asks, answers, answers)))
        scores = torch.einsum("bthd,bshd->bhts", q, k) * q.shape[-1] ** -0.5
        if played is not None:
            scores = scores.masked_fill(~played[:, None, None], -1e9)
        return asks + torch.einsum("bhts,bshd->bthd", scores.softmax(-1), v).flatten(2)

    def pool(self, x, played):
        if played is None:
            return x.mean(1)
        share = played / played.sum(1, keepdim=True)
        return (share.unsqueeze(2).to(x) * x).sum(1)

    def forward(self, voice, piano, voice_mask=None, piano_mask=None):
        a, b = self.voice_in(voice), self.piano_in(piano)
        sung = self.read(self.to_voice, a, b, piano_mask)
        struck = self.read(self.to_piano, b, a, piano_mask)
        both = self.pool(sung, voice_mask) + self.pool(struck, piano_mask)
        return {"sung": sung, "struck": struck, "both": both}


def build() -> nn.Module:
    return Duet()


EXPECTED = {"kind": "mask-wrong-source", "severity": "error"}
CALL = {
    "attention": "cross",
    "layout": "BLD",
    "inputs": {"voice": (2, 7, 10), "piano": (2, 7, 26)},
    "query_arg": "piano",
    "context_arg": "voice",
    "mask": {"arg": "voice_mask", "shape": (2, 7), "on": "context", "polarity": "keep", "dtype": "bool"},
    "causal": False,
    "embed_dim": 24,
    "heads": 3,
    "head_dim": 8,
    "returns": "dict",
}
