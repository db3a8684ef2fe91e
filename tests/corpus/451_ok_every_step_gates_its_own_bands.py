"""A signal's channels are gated at every step by that step alone, through a narrow layer, as the text says.

Kind: correct
"""

from torch import nn


class StepGate(nn.Module):
    """(items, bands, steps) -> the same. A narrow layer squeezes the bands of each step; its numbers gate that step."""

    def __init__(self, bands=16, narrow=4):
        super().__init__()
        self.gate = nn.Sequential(nn.Conv1d(bands, narrow, 1), nn.GELU(), nn.Conv1d(narrow, bands, 1), nn.Sigmoid())

    def forward(self, x):
        return self.gate(x) * x


def build() -> nn.Module:
    return StepGate()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "channel-no-squeeze"}
CALL = {
    "attention": "gate",
    "layout": "BCL",
    "inputs": {"x": (3, 16, 11)},
    "mask": None,
    "channels": 16,
    "returns": "out",
}
