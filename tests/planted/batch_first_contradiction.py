"""A sequence-first nn.MultiheadAttention inside a layer that says batch first."""

from torch import nn

RULES = {"ATT302"}


class Right(nn.Module):
    """x: (batch, length, channels)."""

    def __init__(self, channels=12, heads=3):
        super().__init__()
        self.norm = nn.LayerNorm(channels)
        self.attention = nn.MultiheadAttention(channels, heads, batch_first=True)

    def forward(self, x):
        y = self.norm(x)
        return x + self.attention(y, y, y, need_weights=False)[0]


class Wrong(Right):
    """x: (batch, length, channels)."""

    def __init__(self, channels=12, heads=3):
        super().__init__()
        self.attention = nn.MultiheadAttention(channels, heads)


def right():
    return Right()


def wrong():
    return Wrong()
