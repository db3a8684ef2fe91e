"""Talking heads: scores are mixed between heads before the softmax, weights after it. Some rows at a time, in bounded memory.

Axes: B samples, H query heads, Hkv key heads, T queries, S keys, D channels of a head, Dv channels of a value; t rows of one part.
Source: Shazeer et al. 2020, arXiv:2003.02436: logits mixed by P_l, softmax over keys, weights mixed by P_w.
Left open there: masks (here after the mixing of the scores, so a hidden key has weight 0 in all heads) and padding.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from regard.core.backends.open_form import grouped_matmul
from regard.core.call import Call, prepare
from regard.core.errors import ShapeError
from regard.core.finite import seen_marks
from regard.core.mask.expression import Mask

PART_BYTES = 32 << 20  # of scores held at once


def talking_heads(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    before: Tensor | None = None,
    after: Tensor | None = None,
    mask: Mask | Tensor | None = None,
    bias: Tensor | None = None,
    scale: float | None = None,
    dropout: float = 0.0,
    part_bytes: int = PART_BYTES,
) -> Tensor:
    """Attention whose heads read each other.

    Args:
        query, key, value, mask, bias, scale, dropout: As in `regard.attention`; the bias is added after the mixing.
        before: (H, H): score of head h = sum over g of before[h, g] times the scaled product of head g. None: no mixing.
        after: (H, H): weight of head h = sum over g of after[h, g] times the softmax of head g. None: no mixing.
        part_bytes: Rows are computed so many at a time that their scores take about this; in a backward pass they are computed again.

    Returns:
        (B, H, T, Dv), the dtype of query. A row that sees no key is 0.

    Raises:
        ShapeError: `before` or `after` is not (H, H); and what `regard.attention` raises.
    """
    call = prepare(query, key, value, mask=mask, bias=bias, scale=scale, dropout=dropout)
    B, H, T, S = call.sizes
    for name, mix in (("before", before), ("after", after)):
        if mix is not None and tuple(mix.shape) != (H, H):
            raise ShapeError(f"{name} mixes {H} heads with {H} heads and must be ({H}, {H}), got {tuple(mix.shape)}")
    if 0 in (B, H, T, S):
        return call.unseen()
    clean, poison = seen_marks(call)
    rows = max(1, min(T, part_bytes // max(1, 4 * B * H * S)))
    if rows == T:
        output = _rows(clean, torch.arange(T, device=query.device), before, after)
    elif dropout > 0:  # checkpoints draw the same random numbers again
        starts = range(0, T, rows)
        parts = [checkpoint(_rows, clean, _part(call, s, rows), before, after, use_reentrant=False) for s in starts]
        output = torch.cat(parts, dim=2)
    else:
        output = _InParts.apply(clean, rows, clean.query, clean.key, clean.value, clean.bias, before, after)
    if poison is None:
        return output
    return output + poison.sum(1, keepdim=True)[..., None].to(output.dtype)  # all heads read all heads


def _part(call: Call, start: int, rows: int) -> Tensor:
    return torch.arange(start, min(start + rows, call.sizes[2]), device=call.query.device)


class _InParts(torch.autograd.Function):
    """Rows part by part into one tensor made beforehand: pieces kept in between would leave holes that no later part fits into."""

    @staticmethod
    def forward(ctx, call, rows, query, key, value, bias, before, after):
        ctx.call, ctx.rows = call, rows
        ctx.save_for_backward(query, key, value, bias, before, after)
        output = query.new_empty(*query.shape[:3], value.shape[3])
        for start in range(0, query.shape[2], rows):
            output[:, :, start : start + rows] = _rows(call, _part(call, start, rows), before, after)
        return output

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, *upstream):
        inputs, (upstream,) = ctx.saved_tensors, upstream
        wanted = [i for i, x in enumerate(inputs) if x is not None and ctx.needs_input_grad[2 + i]]
        sums = {i: torch.zeros_like(inputs[i]) for i in wanted}
        for start in range(0, upstream.shape[2], ctx.rows):
            leaves = [None if x is None else x.detach().requires_grad_(i in sums) for i, x in enumerate(inputs)]
            names = dict(zip(("query", "key", "value", "bias"), leaves, strict=False))
            with torch.enable_grad():
                part = _rows(replace(ctx.call, **names), _part(ctx.call, start, ctx.rows), *leaves[4:])
            given = upstream[:, :, start : start + ctx.rows]
            asked = [x for i in wanted if (x := leaves[i]) is not None]
            for i, found in zip(wanted, torch.autograd.grad(part, asked, given), strict=True):
                sums[i] += found
        return (None, None, *(sums.get(i) for i in range(6)))


def talking_weights(
    query: Tensor,
    key: Tensor,
    *,
    before: Tensor | None = None,
    after: Tensor | None = None,
    mask=None,
    bias=None,
    scale=None,
) -> Tensor:
    """(B, H, T, S): what meets the values, after both mixings. Arguments as in `talking_heads`. Rows need not sum to 1."""
    call = prepare(query, key, key, mask=mask, bias=bias, scale=scale)
    rows = torch.arange(call.sizes[2], device=query.device)
    return _weights(call, rows, before, after).to(query.dtype)


def _rows(call: Call, rows: Tensor, before: Tensor | None, after: Tensor | None) -> Tensor:
    weights = _weights(call, rows, before, after).to(call.value.dtype)
    return grouped_matmul(weights, call.value)


def _weights(call: Call, rows: Tensor, before: Tensor | None, after: Tensor | None) -> Tensor:
    """(B, H, t, S), float32 or float64, after both mixings and dropout."""
    scores = grouped_matmul(call.query[:, :, rows] * call.scale, call.key.mT)
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    if before is not None:
        scores = torch.einsum("hg,bgts->bhts", before.to(scores.dtype), scores)
    if call.bias is not None:
        bias = call.bias if call.bias.shape[2] == 1 else call.bias[:, :, rows]
        scores = scores + bias.to(scores.dtype)
    attend = replace(call, rows=rows, _memo={}).attend()
    if attend is None:
        weights = scores.softmax(dim=-1)
    else:
        dead = ~attend.any(dim=-1, keepdim=True)
        weights = scores.masked_fill(~attend & ~dead, float("-inf")).softmax(dim=-1).masked_fill(~attend, 0.0)
    if call.dropout > 0:
        weights = torch.nn.functional.dropout(weights, call.dropout, training=True)
    return weights if after is None else torch.einsum("hg,bgts->bhts", after.to(weights.dtype), weights)
