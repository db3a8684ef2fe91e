"""The mean over time is made in the constructor and never taken.

Kind: channel-no-squeeze
"""

from torch import nn


class SensorExcitation(nn.Module):
    """(items, sensors, time) -> the same. Squeeze and excitation: a number in (0, 1) that a sensor has for all of the time."""

    def __init__(self, sensors=18, narrow=6):
        super().__init__()
        self.whole = nn.AdaptiveAvgPool1d(1)
        self.down, self.up = nn.Conv1d(sensors, narrow, 1), nn.Conv1d(narrow, sensors, 1)

    def forward(self, series):
        level = series
        return series * self.up(self.down(level).tanh()).sigmoid()


def build() -> nn.Module:
    return SensorExcitation()


EXPECTED = {"kind": "channel-no-squeeze", "severity": "error"}
CALL = {
    "attention": "channel",
    "layout": "BCL",
    "inputs": {"series": (3, 18, 11)},
    "mask": None,
    "channels": 18,
    "variant": "se",
    "returns": "out",
}
