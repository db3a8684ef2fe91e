"""The vote of the mean is overwritten by that of the maximum; views that name the channels let a single table run as well, by accident.

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
        pixels = x.reshape(x.shape[0], self.channels, -1)
        vote = self.votes(pixels.mean(2))
        vote = self.votes(pixels.max(2).values)
        return vote.sigmoid()[:, :, None, None] * x


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
