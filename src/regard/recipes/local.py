"""What lies near: a depthwise convolution along the sequence, added to it; attention alone learns nearness slowly.

Axes: B sequences, T tokens, E channels.
"""

from __future__ import annotations

from torch import Tensor, nn


class Local(nn.Module):
    """x + convolution(norm(x)), over `size` tokens around each, channel by channel; padding must be 0 in `keep`.

    Args:
        width: E.
        size: Odd.
    """

    def __init__(self, width: int, size: int):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.convolution = nn.Conv1d(width, width, size, padding=size // 2, groups=width)
        self.mix = nn.Linear(width, width)

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        """(B, T, E) to the same; `keep` (B, T), True = a token, so that what lies in the padding has no effect."""
        y = self.norm(x)
        if keep is not None:
            y = y * keep[..., None]
        return x + self.mix(nn.functional.gelu(self.convolution(y.transpose(1, 2)).transpose(1, 2)))
