"""Attention in ten open lines of float64: the specification that every backend is compared with.

Axes: B samples, H query heads, T queries, S keys, D channels of a head, Dv channels of a value.
Order: scale, softcap, bias, mask, softmax. Conventions: those of the ONNX Attention operator (opset 25).
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.core.mask.expression import Mask
from regard.core.mask.table import from_bool


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    mask: Mask | Tensor | None = None,
    bias: Tensor | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sink: Tensor | None = None,
) -> Tensor:
    """Softmax attention, slow and plain, in float64.

    Args:
        query, key, value: (B, H, T, D), (B, Hkv, S, D), (B, Hkv, S, Dv).
        mask, bias, scale, softcap, sink: As in `regard.attention`.

    Returns:
        (B, H, T, Dv), float64. A row that sees nothing is 0.
    """
    weights, attend = _weights(query, key, mask, bias, scale, softcap, sink)
    value = value.double().repeat_interleave(query.shape[1] // key.shape[1], dim=1)  # head i reads key head i // group
    terms = weights[..., None] * value[:, :, None]  # (B, H, T, S, Dv)
    return terms.masked_fill(~attend[..., None], 0.0).sum(dim=3)  # select: a hidden NaN adds nothing


def attention_weights(
    query: Tensor,
    key: Tensor,
    *,
    mask: Mask | Tensor | None = None,
    bias: Tensor | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sink: Tensor | None = None,
) -> Tensor:
    """(B, H, T, S), float64: what each query gives each key. A row that sees nothing is 0."""
    return _weights(query, key, mask, bias, scale, softcap, sink)[0]


def _weights(query, key, mask, bias, scale, softcap, sink) -> tuple[Tensor, Tensor]:
    (B, H, T, D), S = query.shape, key.shape[2]
    key = key.double().repeat_interleave(H // key.shape[1], dim=1)
    scores = query.double() @ key.mT * (D**-0.5 if scale is None else scale)
    scores = scores if softcap is None else softcap * torch.tanh(scores / softcap)
    scores = scores if bias is None else scores + bias.double()
    attend = _attend(mask, B, H, T, S, query.device)
    scores = scores.masked_fill(~attend, float("-inf"))
    if sink is not None:  # a logit that joins the softmax and is dropped
        scores = torch.cat([scores, sink.double()[None, :, None, None].expand(B, H, T, 1)], dim=-1)
    nothing = (scores == float("-inf")).all(dim=-1, keepdim=True)
    weights = scores.masked_fill(nothing, 0.0).softmax(dim=-1).masked_fill(nothing, 0.0)
    return weights[..., :S], attend


def _attend(mask: Mask | Tensor | None, B: int, H: int, T: int, S: int, device: torch.device) -> Tensor:
    if mask is None:
        return torch.ones(B, H, T, S, dtype=torch.bool, device=device)
    expression = mask if isinstance(mask, Mask) else from_bool(mask)
    return expression.materialise(T, S, batch=B, heads=H, device=device).expand(B, H, T, S)
