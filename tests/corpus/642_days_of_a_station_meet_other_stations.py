"""Each station's days get positions along axis 1, and nn.TransformerEncoderLayer, not told batch_first, attends along axis 0.

Kind: batch-first
"""

import torch
from torch import nn


class WeatherStations(nn.Module):
    """(stations, days, 6) -> (stations, days, 2): each station alone, at most 64 days."""

    def __init__(self, sensors=6, model=48, heads=6, days=64):
        super().__init__()
        self.read = nn.Sequential(nn.Linear(sensors, model), nn.GELU())
        self.day = nn.Embedding(days, model)
        self.mix = nn.ModuleList(
            nn.TransformerEncoderLayer(model, heads, 2 * model, dropout=0.0, norm_first=True) for _ in range(2)
        )
        self.tell = nn.Linear(model, 2)

    def forward(self, readings):
        days = torch.arange(readings.size(1), device=readings.device)
        h = self.read(readings) + self.day(days)
        for layer in self.mix:
            h = layer(h)
        return self.tell(h)


def build() -> nn.Module:
    return WeatherStations()


EXPECTED = {"kind": "batch-first", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"readings": (3, 7, 6)},
    "mask": None,
    "position": "learned",
    "embed_dim": 48,
    "heads": 6,
    "head_dim": 8,
    "returns": "out",
}
