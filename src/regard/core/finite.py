"""NaN and inf where a mask hides them: no harm. Select, not multiply: 0 * NaN is NaN, so what is not finite never enters.

Axes: B samples, H query heads, Hkv key heads, T queries, S keys.

A kernel multiplies weights with values, hidden or not. So under a mask keys and values that are not finite are replaced by
0 before it, and afterwards NaN is added to the rows that do see one. That costs two passes over key and value, and
a range sum (bands, padding) or a T x S product with a vector (other masks); without a mask, nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from regard.core.call import Call


def guarded(run: Callable[[Call], Tensor], call: Call) -> Tensor:
    """`run(call)`, with NaN in the rows that see a key or value which is not finite, and in no others.

    Returns:
        (B, H, T, N), as `run` does.
    """
    if call.structure.empty:
        return run(call)
    bad = ~(_all_finite(call.key) & _all_finite(call.value))  # (B, Hkv, S)
    clean = replace(call, key=_replaced(call.key), value=_replaced(call.value))
    output = run(clean)
    seen = _sees(call, bad)  # (B, H or 1, T or 1)
    poison = torch.zeros(seen.shape, dtype=output.dtype, device=output.device).masked_fill(seen, float("nan"))
    return output + poison[..., None]


def _all_finite(x: Tensor) -> Tensor:
    """(B, Hkv, S): in one pass over (B, Hkv, S, D); the largest magnitude is NaN or inf when any is."""
    if x.shape[3] == 0:
        return torch.ones(x.shape[:3], dtype=torch.bool, device=x.device)
    return torch.linalg.vector_norm(x.detach(), ord=float("inf"), dim=-1).isfinite()


def _replaced(x: Tensor) -> Tensor:
    return torch.nan_to_num(x, nan=0.0, posinf=0.0, neginf=0.0)


def _sees(call: Call, bad: Tensor) -> Tensor:
    """(B, H or 1, T or 1) bool: whether the row attends to any key in `bad`, (B, Hkv, S)."""
    if call.structure.plain:
        seen = _sees_in_range(call, bad)
    else:
        attend = call.attend()
        assert attend is not None  # a call without a mask has an empty structure
        if attend.shape[1] > 1:
            return (attend & bad.repeat_interleave(call.group, dim=1)[:, :, None]).any(dim=-1)
        seen = _any_product(attend[:, 0], bad)
    return seen.repeat_interleave(call.group, dim=1)


def _sees_in_range(call: Call, bad: Tensor) -> Tensor:
    """(B, Hkv, T or 1), for a mask that is one range of keys per row and a key mask: sums of a running count."""
    form, S, T = call.structure, bad.shape[2], call.query.shape[2]
    keep = form.key_mask(call.places())
    if keep is not None:
        bad = bad & keep[:, :, 0]
    if not form.banded:
        return bad.any(dim=-1, keepdim=True)
    count = torch.nn.functional.pad(bad.long().cumsum(dim=-1), (1, 0))  # (B, Hkv, S + 1): bad keys before each
    assert isinstance(form.offset, int)  # a plain structure has no other
    position = torch.arange(T, device=bad.device) + form.offset
    first = torch.zeros_like(position) if form.left is None else (position - form.left).clamp(0, S)
    end = torch.full_like(position, S) if form.right is None else (position + form.right + 1).clamp(0, S)
    return count[:, :, end] > count[:, :, first]


def _any_product(attend: Tensor, bad: Tensor) -> Tensor:
    """(B, Hkv, T): any(attend[b, t, s] and bad[b, h, s]) as a matrix product, without a B x Hkv x T x S tensor."""
    B, heads, S = bad.shape
    table, marks = attend.float(), bad.float()
    if attend.shape[2] == 1 and S != 1:
        table = table.expand(-1, -1, S)
    if attend.shape[0] == 1:
        return (marks.reshape(B * heads, S) @ table[0].mT).reshape(B, heads, table.shape[1]) > 0
    return marks @ table.mT > 0
