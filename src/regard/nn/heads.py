"""Channels to heads: how many heads a projection makes is read from its width, and what does not fit is refused.

Axes: B batch, T query tokens, S key tokens, E channels.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.core.errors import DtypeError, ShapeError


def to_heads(x: Tensor, width: int, name: str) -> Tensor:
    """(B, T, heads x width) to (B, heads, T, width), for as many heads as there are; `name` made the channels."""
    if x.shape[2] % width:
        raise ShapeError(f"{name} makes {x.shape[2]} channels, which are no whole number of heads of width {width}")
    return x.unflatten(2, (-1, width)).transpose(1, 2)


def weight_like(projection: nn.Module) -> Tensor:
    """The weight of a projection, for its dtype, device and rows; torch's quantised ones hide theirs, and take float32."""
    weight = projection.weight
    return weight if isinstance(weight, Tensor) else torch.empty(int(projection.out_features), 0)  # pyright: ignore


def check_heads(embed_dim: int, num_heads: int, num_kv_heads: int, head_dim: int | tuple[int, int] | None) -> None:
    """Refuse sizes of which no multi-head layer can be made.

    Raises:
        ShapeError: With the numbers and the way out.
    """
    widths = () if head_dim is None else head_dim if isinstance(head_dim, tuple) else (head_dim,)
    if min(embed_dim, num_heads, num_kv_heads, *widths) < 1:
        raise ShapeError(
            f"embed_dim={embed_dim}, num_heads={num_heads}, num_kv_heads={num_kv_heads} and head_dim={head_dim} "
            "must be at least 1"
        )
    if num_heads % num_kv_heads:
        raise ShapeError(
            f"{num_heads} query heads cannot share {num_kv_heads} key heads; num_kv_heads must divide num_heads"
        )
    if head_dim is None and embed_dim % num_heads:
        raise ShapeError(
            f"embed_dim={embed_dim} cannot be split into {num_heads} heads; choose a number of heads that divides it, "
            "or give head_dim"
        )


def check_dropout(dropout: float) -> None:
    """Refuse what is no probability.

    Raises:
        ShapeError: With the number.
    """
    if not 0.0 <= dropout <= 1.0:
        raise ShapeError(f"dropout={dropout} is a probability between 0 and 1")


def draw_projections(*projections: nn.Linear) -> None:
    """Draw the weights anew (Xavier uniform, torch's generator) and set the biases to 0."""
    for projection in projections:
        nn.init.xavier_uniform_(projection.weight)
        if projection.bias is not None:
            nn.init.zeros_(projection.bias)


def check_inputs(query: Tensor, key: Tensor, value: Tensor, widths: tuple[int, int, int], weight: Tensor) -> None:
    """Refuse what is not (B, T, E), (B, S, key width), (B, S, value width) with the dtype and device of `weight`.

    Raises:
        ShapeError, DtypeError: With the numbers and the way out.
    """
    for name, x, width in (
        ("query", query, widths[0]),
        ("key", key, widths[1]),
        ("value", value, widths[2]),
    ):
        if not isinstance(x, Tensor):
            raise DtypeError(f"{name} must be a tensor (batch, length, {width}), got {type(x).__name__}")
        if x.dim() != 3 or x.shape[2] != width:
            raise ShapeError(f"{name} has shape {tuple(x.shape)}; this layer takes (batch, length, {width})")
        if x.device != weight.device:
            raise DtypeError(f"{name} is on {x.device} and the layer on {weight.device}; move one with .to(device)")
        if x.dtype != weight.dtype and autocast_dtype(x.device) is None:
            raise DtypeError(f"{name} is {x.dtype} and the layer {weight.dtype}; convert one with .to(dtype)")
    if not query.shape[0] == key.shape[0] == value.shape[0]:
        raise ShapeError(
            f"query, key and value have {query.shape[0]}, {key.shape[0]} and {value.shape[0]} samples; "
            "they must have equally many"
        )
    if key.shape[1] != value.shape[1]:
        raise ShapeError(f"key has {key.shape[1]} tokens and value {value.shape[1]}; each key needs its value")


def autocast_dtype(device: torch.device) -> torch.dtype | None:
    """What autocast computes in on this device now; None where it is off."""
    kind = device.type
    if not torch.amp.is_autocast_available(kind) or not torch.is_autocast_enabled(kind):
        return None
    return torch.get_autocast_dtype(kind)
