"""Grid attention: pixels that stand at the same place of a coarse raster see each other, so that a few reach everywhere.

Axes: B images, C channels, H rows, W columns.
Source: Tu et al. 2022, arXiv:2204.01697 (MaxViT), section 3.2. Pixels (i, j) and (k, l) see each other when i mod c = k mod c
and j mod d = l mod d, with c = ceil(H / g) and d = ceil(W / g) for a grid of g x g. Left open there: sizes that g does not
divide; here some regions then have a row or column less, and nothing is padded.
"""

from __future__ import annotations

import torch

from regard.nn.window_attention import WindowAttention, both
from regard.nn.window_partition import Partition, grid_cells


class GridAttention(WindowAttention):
    """Self-attention among pixels that lie `ceil(H / g)` rows and `ceil(W / g)` columns apart.

    Args:
        channels: C.
        num_heads: Divides C.
        grid_size: Rows and columns of a region (at most), or one number for both.
        qkv_bias: Whether queries, keys and values have biases.
        dropout: Probability with which a weight is dropped while training.

    Shapes: (B, C, H, W) in and out, any H and W; the output lies channels last in memory. The learned bias depends on the
    distance counted in grid steps.

    >>> GridAttention(8, 2, grid_size=2).regions(4, 1)[:, 0].tolist()
    [0, 1, 0, 1]
    """

    def __init__(
        self,
        channels: int,
        num_heads: int,
        *,
        grid_size: int | tuple[int, int] = 7,
        qkv_bias: bool = True,
        dropout: float = 0.0,
        device: torch.device | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(
            channels,
            num_heads,
            window_size=both(grid_size),
            qkv_bias=qkv_bias,
            dropout=dropout,
            device=device,
            dtype=dtype,
        )

    def partition(self, rows: int, columns: int) -> Partition:
        """How an image of this size is cut."""
        return grid_cells((rows, columns), self.window_size)
