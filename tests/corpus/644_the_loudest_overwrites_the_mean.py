"""The vote of a channel's mean is overwritten by that of its maximum; the views of the input run for three axes as well, by accident.

Kind: channel-branch-lost
"""

from torch import nn


class LoudAndMean(nn.Module):
    """Every channel times a number in (0, 1) that is made of its mean and its maximum."""

    def __init__(self, channels=18, hidden=6):
        super().__init__()
        self.channels = channels
        self.votes = nn.Sequential(nn.Linear(channels, hidden), nn.Tanh(), nn.Linear(hidden, channels))

    def forward(self, x):
        items, channels = x.shape[:2]
        pixels = x.reshape(items, channels, -1)
        vote = self.votes(pixels.mean(2))
        vote = self.votes(pixels.max(2).values)
        return vote.sigmoid().reshape(items, channels, 1, 1) * x


def build() -> nn.Module:
    return LoudAndMean()


EXPECTED = {"kind": "channel-branch-lost", "severity": "error"}
CALL = {
    "attention": "channel",
    "layout": "BCHW",
    "inputs": {"x": (2, 18, 5, 7)},
    "mask": None,
    "channels": 18,
    "returns": "out",
}
