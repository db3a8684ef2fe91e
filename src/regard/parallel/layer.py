"""A layer of multi-head self-attention over a sequence that is cut among processes: projections here, attention together.

Axes: B samples, t tokens of this process, T of all, E channels, H heads, D channels of a head.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from regard.core.errors import ParallelError
from regard.core.mask.expression import Mask
from regard.core.mask.table import from_bool

_READ = ("q_proj", "k_proj", "v_proj", "out_proj", "head_dim", "value_head_dim", "position", "mask", "attention_bias")


class SequenceParallelLayer(nn.Module):
    """The layer, called with this process's part of the sequence. Made by `regard.parallel.sequence_parallel`.

    Args:
        layer: Has the attributes of `regard.nn.MultiHeadAttention`; its parameters stay its own, and are this module's
            too. Their gradients are those of this process's tokens: sum them over the group.
        attention: The attention of all processes together.
    """

    def __init__(self, layer: nn.Module, attention: Any):
        super().__init__()
        missing = [name for name in _READ if not hasattr(layer, name)]
        if missing:
            raise ParallelError(
                f"{type(layer).__name__} has no {', '.join(missing)}, so it cannot be cut; give a "
                "regard.nn.MultiHeadAttention, or call sequence_parallel(regard.attention) inside your layer"
            )
        self.layer = layer
        self.attention = attention

    def forward(self, x: Tensor, *, mask: Mask | Tensor | None = None) -> Tensor:
        """(B, t, E) to (B, t, E).

        Args:
            mask: Of the whole sequence, the same in every process; the layer's own is added (and).
        """
        layer: Any = self.layer
        shards = self.attention.shards(x.shape[1], x.device)
        q = layer.q_proj(x).unflatten(-1, (-1, layer.head_dim)).transpose(1, 2)
        k = layer.k_proj(x).unflatten(-1, (-1, layer.head_dim)).transpose(1, 2)
        v = layer.v_proj(x).unflatten(-1, (-1, layer.value_head_dim)).transpose(1, 2)
        if layer.q_norm is not None and layer.k_norm is not None:
            q, k = layer.q_norm(q), layer.k_norm(k)
        here = shards.positions(x.device)[None]  # (1, t)
        if layer.position is not None:
            q, k = layer.position(q, here), layer.position(k, here)
        bias = None
        if layer.attention_bias is not None:
            bias = layer.attention_bias(here, torch.arange(shards.total, device=x.device)[None])
        output = self.attention(
            q,
            k,
            v,
            mask=_both(layer.mask, mask),
            bias=bias,
            scale=layer.scale,
            softcap=layer.softcap,
            dropout=layer.dropout if self.training else 0.0,
        )
        return layer.out_proj(output.transpose(1, 2).flatten(2))


def _both(own: Mask | None, given: Mask | Tensor | None) -> Mask | None:
    if given is None:
        return own
    given = given if isinstance(given, Mask) else from_bool(given)
    return given if own is None else own & given
