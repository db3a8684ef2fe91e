"""Frames of sound through two post-norm layers that share one additive mask: its triangle of -inf begins a diagonal too far right.

Kind: causal-off-by-one
"""

import torch
from torch import nn


class FrameLayer(nn.Module):
    def __init__(self, size, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.project = nn.ModuleDict({name: nn.Linear(size, size) for name in ("q", "k", "v", "mix")})
        self.after_mix, self.after_feed = nn.LayerNorm(size), nn.LayerNorm(size)
        self.feed = nn.Sequential(nn.Linear(size, 3 * size), nn.SiLU(), nn.Linear(3 * size, size))

    def forward(self, frames, hide):
        n, t, c = frames.shape
        q, k, v = (self.project[p](frames).view(n, t, self.n_heads, -1).movedim(2, 1) for p in "qkv")
        energy = torch.matmul(q, k.mT).div((c // self.n_heads) ** 0.5) + hide
        heard = torch.matmul(energy.softmax(dim=-1), v).movedim(1, 2).reshape(n, t, c)
        frames = self.after_mix(frames + self.project["mix"](heard))
        return self.after_feed(frames + self.feed(frames))


class FramePredictor(nn.Module):
    """(batch, time, 20) -> (batch, time, 20): what the next frame will be."""

    def __init__(self, bands=20, size=24, n_heads=3):
        super().__init__()
        self.widen, self.narrow = nn.Linear(bands, size), nn.Linear(size, bands)
        self.first, self.second = FrameLayer(size, n_heads), FrameLayer(size, n_heads)

    def forward(self, frames):
        hide = torch.full((frames.shape[1], frames.shape[1]), float("-inf"), dtype=frames.dtype).triu(2)
        return self.narrow(self.second(self.first(self.widen(frames), hide), hide))


def build() -> nn.Module:
    return FramePredictor()


EXPECTED = {"kind": "causal-off-by-one", "severity": "error"}
CALL = {
    "attention": "causal",
    "layout": "BLD",
    "inputs": {"frames": (2, 8, 20)},
    "mask": None,
    "causal": True,
    "embed_dim": 24,
    "heads": 3,
    "head_dim": 8,
    "returns": "out",
}
