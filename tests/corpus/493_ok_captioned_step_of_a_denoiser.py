"""A map, one number per item and a text; half as many waves as channels, twice.

Kind: correct
"""

import math

import torch
import torch.nn.functional as F
from torch import nn


def waves(step, width):
    """(items,) -> (items, 2 * (width // 2)): sines and cosines of a time."""
    rate = torch.exp(-math.log(1e4) * torch.arange(width // 2, dtype=step.dtype) / (width // 2))
    return torch.cat((torch.sin(step[:, None] * rate), torch.cos(step[:, None] * rate)), -1)


class CaptionedStep(nn.Module):
    """noisy: (items, channels, rows, columns); step: (items,); caption: (items, words, 9)."""

    def __init__(self, channels=20, words_width=9, heads=2):
        super().__init__()
        self.heads, self.time = heads, nn.Linear(channels, channels)
        self.before, self.after = nn.Conv2d(channels, channels, 3, padding=1), nn.Conv2d(channels, channels, 1)
        self.ask, self.tell = nn.Linear(channels, channels), nn.Linear(words_width, 2 * channels)

    def split(self, t):
        return t.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, noisy, step, caption):
        channels = noisy.shape[1]
        time = self.time(waves(step.to(noisy.dtype), channels))[..., None, None]
        y = F.silu(self.before(noisy)) + time
        k, v = self.tell(caption).chunk(2, -1)
        q = self.ask(y.flatten(2).mT)
        score = self.split(q) @ self.split(k).mT * (channels // self.heads) ** -0.5
        y = score.softmax(-1) @ self.split(v)
        y = y.transpose(1, 2).flatten(2).mT.reshape(noisy.shape)
        return noisy + self.after(y)


def build() -> nn.Module:
    return CaptionedStep()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "softmax-axis-query"}
CALL = {
    "attention": "cross",
    "layout": "BCHW",
    "inputs": {"noisy": (2, 20, 4, 6), "step": (2,), "caption": (2, 7, 9)},
    "query_arg": "noisy",
    "context_arg": "caption",
    "mask": None,
    "embed_dim": 20,
    "heads": 2,
    "head_dim": 10,
    "returns": "out",
}
