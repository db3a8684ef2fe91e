"""Feed-forward: the part of a Transformer block that changes each token by itself.

Axes: ... any leading axes, E channels.
Sources: Vaswani et al. 2017, arXiv:1706.03762, section 3.3; gated: Shazeer 2020, arXiv:2002.05202.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from regard.core.errors import ShapeError


class FeedForward(nn.Module):
    """down(activation(up(x))).

    Args:
        embed_dim: Width of the tokens, E.
        hidden_dim: Width between the two projections; None: 4 x embed_dim.
        activation: Function of a tensor, element by element.
        bias: Whether the projections add a bias.
        dropout: Share of hidden channels set to 0, in training only.
        device: Where the parameters lie.
        dtype: What they are.
    """

    def __init__(
        self,
        embed_dim: int,
        hidden_dim: int | None = None,
        *,
        activation: Callable[[Tensor], Tensor] = nn.functional.gelu,
        bias: bool = True,
        dropout: float = 0.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__()
        hidden_dim = 4 * embed_dim if hidden_dim is None else hidden_dim
        _check_sizes(embed_dim, hidden_dim)
        self.up = nn.Linear(embed_dim, hidden_dim, bias=bias, device=device, dtype=dtype)
        self.down = nn.Linear(hidden_dim, embed_dim, bias=bias, device=device, dtype=dtype)
        self.activation = activation
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """(..., E) to (..., E)."""
        return self.down(self.dropout(self.activation(self.up(x))))


class GatedFeedForward(nn.Module):
    """down(activation(gate(x)) * up(x)): with the default activation, Llama's SwiGLU.

    Args:
        embed_dim: Width of the tokens, E.
        hidden_dim: Width between the projections; None: 8/3 x embed_dim, rounded up to a multiple of 8, so that the
            three projections hold about as many numbers as the two of `FeedForward`.
        activation: Function of a tensor, element by element.
        bias: Whether the projections add a bias.
        dropout: Share of hidden channels set to 0, in training only.
        device: Where the parameters lie.
        dtype: What they are.
    """

    def __init__(
        self,
        embed_dim: int,
        hidden_dim: int | None = None,
        *,
        activation: Callable[[Tensor], Tensor] = nn.functional.silu,
        bias: bool = False,
        dropout: float = 0.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__()
        hidden_dim = 8 * -(-embed_dim // 3) if hidden_dim is None else hidden_dim
        _check_sizes(embed_dim, hidden_dim)
        self.gate = nn.Linear(embed_dim, hidden_dim, bias=bias, device=device, dtype=dtype)
        self.up = nn.Linear(embed_dim, hidden_dim, bias=bias, device=device, dtype=dtype)
        self.down = nn.Linear(hidden_dim, embed_dim, bias=bias, device=device, dtype=dtype)
        self.activation = activation
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """(..., E) to (..., E)."""
        return self.down(self.dropout(self.activation(self.gate(x)) * self.up(x)))


def _check_sizes(embed_dim: int, hidden_dim: int) -> None:
    if embed_dim < 1 or hidden_dim < 1:
        raise ShapeError(f"embed_dim={embed_dim} and hidden_dim={hidden_dim} must both be at least 1")
