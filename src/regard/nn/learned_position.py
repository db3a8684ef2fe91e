"""Learned positions: a vector for each place, added to the embedding of the token that stands there.

Axes: B batch, T tokens, E channels.
Source: Gehring et al. 2017, arXiv:1705.03122, section 3.1; so in BERT, GPT-2 and ViT.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.core.errors import ShapeError
from regard.nn.token_positions import check_positions


class Learned(nn.Module):
    """x + table[positions]. The table starts normal, mean 0 and standard deviation 0.02.

    Args:
        length: Number of places; a sequence that is longer is refused.
        embed_dim: Width of the tokens, E.
        device: Where the table lies.
        dtype: What it is.

    >>> Learned(512, 32)(torch.zeros(2, 5, 32)).shape
    torch.Size([2, 5, 32])
    """

    def __init__(
        self,
        length: int,
        embed_dim: int,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__()
        if length < 1 or embed_dim < 1:
            raise ShapeError(f"length={length} and embed_dim={embed_dim} must both be at least 1")
        self.table = nn.Parameter(torch.empty(length, embed_dim, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the table anew from torch's generator."""
        nn.init.normal_(self.table, std=0.02)

    def forward(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        """Add to each token the vector of its place.

        Args:
            x: (B, T, E).
            positions: (B or 1, T), integer below `length`; negative: a padding token, which is left as it is.
                None: 0 .. T - 1.

        Returns:
            (B, T, E).

        Raises:
            ShapeError: `x` is not (B, T, E) or longer than the table, or `positions` do not fit it.
            IndexError: A position of `length` or more, by torch's own check.
        """
        length, width = self.table.shape
        if x.dim() != 3 or x.shape[2] != width:
            raise ShapeError(f"x has shape {tuple(x.shape)}; this table takes (batch, length, {width})")
        if positions is None:
            if x.shape[1] > length:
                raise ShapeError(f"{x.shape[1]} tokens for a table of {length} places; make the table longer")
            return x + self.table[: x.shape[1]]
        check_positions(positions, x.shape[0], x.shape[1])
        places = self.table[positions.clamp_min(0)]  # (B or 1, T, E)
        return x + places.masked_fill((positions < 0)[..., None], 0.0)

    def extra_repr(self) -> str:
        return f"length={self.table.shape[0]}, embed_dim={self.table.shape[1]}"
