"""Relative position bias: a learned number for each head and each range of distances.

Axes: B batch, H query heads, T queries, S keys.
Source: Raffel et al. 2019, arXiv:1910.10683, section 2.1 (T5).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.core.bias import relative, relative_buckets
from regard.core.errors import ShapeError


class RelativeBias(nn.Module):
    """table[bucket(key position - query position), head], for `MultiHeadAttention(attention_bias=...)`.

    The table starts at 0: no distance is preferred. It may be shared by handing one object to several layers.

    Args:
        num_heads: Number of query heads, H.
        num_buckets: How many ranges of distances are told apart.
        max_distance: From here on all distances share the last range.
        bidirectional: Whether half of the ranges are for later keys; False for causal layers.
        device: Where the table lies.
        dtype: What it is.

    Raises:
        ShapeError: No heads, or too few ranges for `max_distance`.
    """

    def __init__(
        self,
        num_heads: int,
        *,
        num_buckets: int = 32,
        max_distance: int = 128,
        bidirectional: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__()
        if num_heads < 1:
            raise ShapeError(f"num_heads={num_heads} must be at least 1")
        nowhere = torch.zeros(0, dtype=torch.int64)
        relative_buckets(nowhere, num_buckets=num_buckets, max_distance=max_distance, bidirectional=bidirectional)
        self.max_distance, self.bidirectional = max_distance, bidirectional
        self.table = nn.Parameter(torch.zeros(num_buckets, num_heads, device=device, dtype=dtype))

    def reset_parameters(self) -> None:
        """Set the table to 0."""
        nn.init.zeros_(self.table)

    def forward(self, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        """(B or 1, T) and (B or 1, S), integer, to (B or 1, H, T, S)."""
        return relative(
            self.table,
            query_positions,
            key_positions,
            max_distance=self.max_distance,
            bidirectional=self.bidirectional,
        )

    def extra_repr(self) -> str:
        buckets, heads = self.table.shape
        return (
            f"num_heads={heads}, num_buckets={buckets}, max_distance={self.max_distance}, "
            f"bidirectional={self.bidirectional}"
        )
