"""A block of Swin: window attention and a feed-forward, each beside a residual path.

Axes: B images, C channels, H rows, W columns.
Sources: Liu et al. 2021, arXiv:2103.14030, equation 3 (version 1: x + attention(norm(x))); Liu et al. 2022,
arXiv:2111.09883, section 3.2 (version 2: x + norm(attention(x))).
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from regard.core.errors import ShapeError
from regard.nn.feature_map import check_map
from regard.nn.feed_forward import FeedForward
from regard.nn.shifted_window import ShiftedWindowAttention
from regard.nn.window_attention import Windowed


class SwinBlock(nn.Module):
    """Window attention, then a feed-forward of every pixel.

    Args:
        channels: C.
        num_heads: Divides C.
        window_size: Rows and columns of a window, or one number for both.
        shift: 0 for windows in place; None for half a window, as in every second block of a stage.
        version: 1 or 2, of Swin.
        mlp_ratio: The feed-forward is `mlp_ratio * C` wide.
        qkv_bias, dropout, pretrained_window: As in `WindowAttention`.
        drop_path: Probability with which a whole branch of an image is left out while training.

    Shapes: (B, C, H, W) in and out, any H and W; the output lies channels last in memory.

    >>> SwinBlock(8, 2, window_size=4, shift=None)(torch.ones(1, 8, 5, 9)).shape
    torch.Size([1, 8, 5, 9])
    """

    def __init__(
        self,
        channels: int,
        num_heads: int,
        *,
        window_size: int | tuple[int, int] = 7,
        shift: int | tuple[int, int] | None = 0,
        version: Literal[1, 2] = 1,
        mlp_ratio: float = 4.0,
        qkv_bias: bool = True,
        dropout: float = 0.0,
        drop_path: float = 0.0,
        pretrained_window: int | tuple[int, int] | None = None,
        device: torch.device | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if not 0 <= drop_path < 1:
            raise ShapeError(f"drop_path is a probability below 1, got {drop_path}")
        place = {"device": device, "dtype": dtype}
        self.channels, self.version, self.drop_path = channels, version, drop_path
        self.norm1 = nn.LayerNorm(channels, **place)
        self.attention = ShiftedWindowAttention(
            channels,
            num_heads,
            window_size=window_size,
            shift=shift,
            version=version,
            qkv_bias=qkv_bias,
            dropout=dropout,
            pretrained_window=pretrained_window,
            **place,
        )
        self.norm2 = nn.LayerNorm(channels, **place)
        self.mlp = FeedForward(channels, int(mlp_ratio * channels), **place)

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) to the same."""
        check_map(x, self.channels, self)
        pixels = x.permute(0, 2, 3, 1)  # (B, H, W, C)
        if self.version == 1:
            pixels = pixels + self._kept(self.attention.attend(self.norm1(pixels)))
            pixels = pixels + self._kept(self.mlp(self.norm2(pixels)))
        else:
            pixels = pixels + self._kept(self.norm1(self.attention.attend(pixels)))
            pixels = pixels + self._kept(self.norm2(self.mlp(pixels)))
        return pixels.permute(0, 3, 1, 2)

    def inspect(self, x: Tensor) -> Windowed:
        """The output of the block and the weights of its attention, see `WindowAttention.inspect`."""
        check_map(x, self.channels, self)
        pixels = x.permute(0, 2, 3, 1)
        seen = self.norm1(pixels) if self.version == 1 else pixels
        return Windowed(self.forward(x), self.attention.inspect(seen.permute(0, 3, 1, 2)).weights)

    def _kept(self, branch: Tensor) -> Tensor:
        """The branch (B, H, W, C), left out for a share of the images while training; the mean is kept."""
        if not self.training or self.drop_path == 0:
            return branch
        keep = torch.full((len(branch), 1, 1, 1), 1 - self.drop_path, dtype=branch.dtype, device=branch.device)
        return branch * keep.bernoulli() / (1 - self.drop_path)
