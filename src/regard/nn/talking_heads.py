"""Talking-heads attention: multi-head attention whose heads read each other's scores and weights.

Axes: B batch, T query tokens, S key tokens, E channels, H heads.
Source: Shazeer et al. 2020, arXiv:2003.02436. Left open there: how the mixing starts (here as the identity, so that a new layer is
multi-head attention).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.core.mask.expression import Mask
from regard.core.talking_heads import talking_heads, talking_weights
from regard.nn.multi_head import Bias, Inspected, MultiHeadAttention, Rotation, _Call


class TalkingHeadsAttention(MultiHeadAttention):
    """Multi-head attention with an H x H mixing of the scores before the softmax and of the weights after it.

    No fused kernel takes it: rows are computed in parts, and again in a backward pass, so that memory stays bounded.

    Args:
        embed_dim, num_heads, num_kv_heads, bias, dropout, position, mask, attention_bias, scale, device, dtype: As in
            `MultiHeadAttention`. Dropout is on the weights before their mixing.
        before, after: Whether scores, whether weights are mixed.

    Shapes: as `MultiHeadAttention`. Parameters `before` and `after` are (H, H), row h says what head h takes from each.

    >>> TalkingHeadsAttention(32, num_heads=4)(torch.zeros(2, 5, 32)).shape
    torch.Size([2, 5, 32])
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        *,
        num_kv_heads: int | None = None,
        before: bool = True,
        after: bool = True,
        bias: bool = True,
        dropout: float = 0.0,
        position: Rotation | None = None,
        mask: Mask | None = None,
        attention_bias: Bias | None = None,
        scale: float | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__(
            embed_dim,
            num_heads,
            num_kv_heads=num_kv_heads,
            bias=bias,
            dropout=dropout,
            position=position,
            mask=mask,
            attention_bias=attention_bias,
            scale=scale,
            device=device,
            dtype=dtype,
        )
        made = {"device": device, "dtype": dtype}
        self.before = nn.Parameter(torch.eye(num_heads, **made)) if before else None
        self.after = nn.Parameter(torch.eye(num_heads, **made)) if after else None

    def inspect(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        *,
        mask: Mask | Tensor | None = None,
        positions: Tensor | None = None,
    ) -> Inspected:
        """As `MultiHeadAttention.inspect`; the weights are those that meet the values, after both mixings."""
        call = self._prepare(query, key, value, mask, positions, None)
        given = {"before": self.before, "after": self.after, "mask": call.mask, "bias": call.bias, "scale": self.scale}
        return Inspected(self._finish(call), talking_weights(call.query, call.key, **given))

    def _finish(self, call: _Call) -> Tensor:
        joined = talking_heads(
            call.query,
            call.key,
            call.value,
            before=self.before,
            after=self.after,
            mask=call.mask,
            bias=call.bias,
            scale=self.scale,
            dropout=self.dropout if self.training else 0.0,
        )
        return self._joined(joined)
