"""Row and column summaries are joined in one order and parted in the other."""

import torch
from torch import nn

RULES = {"ATT904"}


class Right(nn.Module):
    """A gate per row times a gate per column; x: (B, C, H, W)."""

    def __init__(self, channels=8):
        super().__init__()
        self.mix = nn.Conv1d(channels, channels, 1)
        self.row, self.column = nn.Conv1d(channels, channels, 1), nn.Conv1d(channels, channels, 1)

    def joined(self, rows, columns):
        return torch.cat([rows, columns], 2)

    def forward(self, x):
        h, w = x.shape[2:]
        y = torch.tanh(self.mix(self.joined(x.mean(3), x.mean(2))))
        rows, columns = y.split([h, w], 2)
        return x * torch.sigmoid(self.row(rows))[..., None] * torch.sigmoid(self.column(columns))[:, :, None]


class Wrong(Right):
    """A gate per row times a gate per column; x: (B, C, H, W)."""

    def joined(self, rows, columns):
        return torch.cat([columns, rows], 2)


def right():
    return Right()


def wrong():
    return Wrong()
