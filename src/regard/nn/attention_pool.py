"""Attention pooling: learned queries gather an image into one vector each, and can show where they looked.

Axes: B images, C channels, H rows, W columns, h heads, Q queries.
Source: Lee et al. 2019, arXiv:1810.00825, section 3.2 (pooling by multi-head attention), without its feed-forward.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from regard.core.attention import attention, attention_weights
from regard.core.errors import ShapeError
from regard.core.mask.sequences import padding
from regard.nn.feature_map import check_map


class Pooled(NamedTuple):
    """What `inspect` of an attention pool returns.

    Attributes:
        output: (B, Q, C), the same values as `forward`.
        weights: (B, h, Q, H, W), after softmax: where each query looked. They sum to 1 over the image.
    """

    output: Tensor
    weights: Tensor


class AttentionPool(nn.Module):
    """The mean over all pixels, weighted by how well each fits a learned query.

    Args:
        channels: C.
        num_heads: h, divides C.
        num_queries: Q.

    Shapes: (B, C, H, W) to (B, Q, C), any H and W.

    >>> AttentionPool(8, 2)(torch.ones(3, 8, 5, 7)).shape
    torch.Size([3, 1, 8])
    """

    def __init__(
        self,
        channels: int,
        num_heads: int = 1,
        *,
        num_queries: int = 1,
        device: torch.device | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if num_heads < 1 or channels % num_heads:
            raise ShapeError(f"{channels} channels do not divide into {num_heads} heads")
        self.channels, self.num_heads = channels, num_heads
        self.query = nn.Parameter(torch.empty(num_queries, channels, device=device, dtype=dtype))
        nn.init.trunc_normal_(self.query, std=0.02)
        self.k_proj = nn.Linear(channels, channels, device=device, dtype=dtype)
        self.v_proj = nn.Linear(channels, channels, device=device, dtype=dtype)
        self.out_proj = nn.Linear(channels, channels, device=device, dtype=dtype)

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        """Pool an image.

        Args:
            x: (B, C, H, W).
            keep: (B, H, W) bool: pixels that count; None: all. An image without any gives the bias of `out_proj`.

        Returns:
            (B, Q, C).
        """
        query, key, value, mask = self._split(x, keep)
        return self.out_proj(attention(query, key, value, mask=mask).transpose(1, 2).flatten(2))

    def inspect(self, x: Tensor, keep: Tensor | None = None) -> Pooled:
        """The output (B, Q, C) and the weights (B, h, Q, H, W)."""
        query, key, _, mask = self._split(x, keep)
        weights = attention_weights(query, key, mask=mask)  # (B, h, Q, H W)
        return Pooled(self.forward(x, keep), weights.unflatten(3, x.shape[2:]))

    def _split(self, x: Tensor, keep: Tensor | None):
        check_map(x, self.channels, self)
        if keep is not None and (keep.dtype != torch.bool or keep.shape != (x.shape[0], *x.shape[2:])):
            raise ShapeError(
                f"keep is bool (B, H, W) = {(x.shape[0], *x.shape[2:])}, got {keep.dtype} {tuple(keep.shape)}"
            )
        pixels = x.flatten(2).mT  # (B, H W, C)
        query = self.query.expand(len(x), -1, -1)
        query, key, value = (
            part.unflatten(2, (self.num_heads, -1)).transpose(1, 2)
            for part in (query, self.k_proj(pixels), self.v_proj(pixels))
        )
        return query, key, value, None if keep is None else padding(keep.flatten(1))
