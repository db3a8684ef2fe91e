"""Window attention whose windows are moved by half a window, so that two layers in a row connect neighbouring windows.

Axes: B images, C channels, H rows, W columns.
Source: Liu et al. 2021, arXiv:2103.14030, section 3.2. Pixels (i, j) and (k, l) see each other when
floor((i - s) / w) = floor((k - s) / w) and floor((j - s) / w) = floor((l - s) / w), for windows of w and a shift of s. On an
axis that one window covers there is no shift, as in the authors' code, timm and torchvision. The layer has no state that
depends on the size of the image.
"""

from __future__ import annotations

from typing import Literal

import torch

from regard.core.errors import ShapeError
from regard.nn.window_attention import WindowAttention, both


class ShiftedWindowAttention(WindowAttention):
    """Self-attention among the pixels of each shifted window.

    Args:
        channels: C.
        num_heads: Divides C.
        window_size: Rows and columns of a window, or one number for both.
        shift: By how much windows are moved down and right, each in [0, window); None: half a window, rounded down.
        version, qkv_bias, dropout, pretrained_window: As in `WindowAttention`.

    Shapes: (B, C, H, W) in and out, any H and W; the output lies channels last in memory.

    Raises:
        ShapeError: A shift of a window or more; and what `WindowAttention` refuses.

    >>> ShiftedWindowAttention(8, 2, window_size=4).regions(6, 1)[:, 0].tolist()
    [0, 0, 1, 1, 1, 1]
    """

    def __init__(
        self,
        channels: int,
        num_heads: int,
        *,
        window_size: int | tuple[int, int] = 7,
        shift: int | tuple[int, int] | None = None,
        version: Literal[1, 2] = 1,
        qkv_bias: bool = True,
        dropout: float = 0.0,
        pretrained_window: int | tuple[int, int] | None = None,
        device: torch.device | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(
            channels,
            num_heads,
            window_size=window_size,
            version=version,
            qkv_bias=qkv_bias,
            dropout=dropout,
            pretrained_window=pretrained_window,
            device=device,
            dtype=dtype,
        )
        self._shift = None if shift is None else both(shift)
        for by, window in zip(self.shift, self.window_size):
            if not 0 <= by < window:
                raise ShapeError(f"a window of {window} can be shifted by 0 to {window - 1}, got {by}")

    @property
    def shift(self) -> tuple[int, int]:
        """By how much the windows are moved down and right."""
        return (self.window_size[0] // 2, self.window_size[1] // 2) if self._shift is None else self._shift
