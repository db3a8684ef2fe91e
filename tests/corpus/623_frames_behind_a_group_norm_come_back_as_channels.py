"""Frames leave the attention as (batch, frames, channels) and are reshaped to (batch, channels, frames); a residual hides it.

Kind: spatial-layout-scramble
"""

from torch import nn


class FrameMixer(nn.Module):
    """A layer of a vocoder; signal: (batch, channels, frames)."""

    def __init__(self, channels=36, heads=4, groups=6):
        super().__init__()
        self.heads = heads
        self.norm = nn.GroupNorm(groups, channels)
        self.qkv = nn.Conv1d(channels, 3 * channels, 1)
        self.out = nn.Conv1d(channels, channels, 1)

    def forward(self, signal):
        b, c, t = signal.shape
        q, k, v = self.qkv(self.norm(signal)).view(b, 3, self.heads, c // self.heads, t).unbind(1)
        weights = (q.mT @ k * (c // self.heads) ** -0.5).softmax(-1)
        y = (weights @ v.mT).transpose(1, 2).reshape(b, t, c)
        return signal + self.out(y.reshape(b, c, t))


def build() -> nn.Module:
    return FrameMixer()


EXPECTED = {"kind": "spatial-layout-scramble", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BDL",
    "inputs": {"signal": (2, 36, 10)},
    "mask": None,
    "embed_dim": 36,
    "heads": 4,
    "head_dim": 9,
    "returns": "out",
}
