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

from regard.core.block_sparse import block_rows_of, seen_in_blocks
from regard.core.call import Call
from regard.core.local_form import local_form, seen_in_band, seen_locally
from regard.core.packed import parts, seen_in_parts

AT_ONCE = 1 << 20  # numbers looked at together: what is held beside the call


def guarded(run: Callable[[Call], Tensor], call: Call, *, replaces: bool = False) -> Tensor:
    """`run(call)`, with NaN in the rows that see a key or value which is not finite, and in no others.

    Args:
        replaces: `run` takes keys and values that are not finite for 0 by itself.

    Returns:
        (B, H, T, N), as `run` does.
    """
    if call.structure.empty:
        return run(call)
    if replaces:
        output, poison = run(call), _seen(call, _mark(call.key) + _mark(call.value))
    else:
        clean, poison = seen_marks(call)
        output = run(clean)
    assert poison is not None  # there is a mask
    if poison.shape[1] != output.shape[1]:
        poison = poison.repeat_interleave(call.group, dim=1)
    poison = poison[..., None].to(output.dtype)
    return output + poison if torch.is_grad_enabled() else output.add_(poison)


def seen_marks(call: Call) -> tuple[Call, Tensor | None]:
    """The call with 0 where keys and values are not finite, and (B, Hkv or H, T or 1): NaN in rows that see one, else 0.

    Without a mask the call is left as it is, and None.
    """
    if call.structure.empty:
        return call, None
    clean = replace(call, key=replaced(call.key), value=replaced(call.value))
    return clean, _seen(call, _mark(call.key) + _mark(call.value))


def _mark(x: Tensor) -> Tensor:
    """(B, Hkv, S): 0 where all of (B, Hkv, S, D) are finite, else NaN; inf * 0 is NaN, and no sum overflows."""
    x = x.detach()
    if torch.compiler.is_compiling() or x.numel() <= AT_ONCE:
        return (x * 0.0).sum(dim=-1)
    tokens = max(1, AT_ONCE * x.shape[2] // x.numel())
    return torch.cat([(part * 0.0).sum(dim=-1) for part in x.split(tokens, dim=2)], dim=2)


def replaced(x: Tensor) -> Tensor:
    """0 where x is not finite. The gradient goes through as it is: it is 0 where no clean row looks, and cheaper so."""
    if not (torch.is_grad_enabled() and x.requires_grad):
        return torch.nan_to_num(x, nan=0.0, posinf=0.0, neginf=0.0)
    copy = x.clone()
    with torch.no_grad():
        copy.nan_to_num_(nan=0.0, posinf=0.0, neginf=0.0)
    return copy


def _seen(call: Call, mark: Tensor) -> Tensor:
    """(B, Hkv or H, T or 1): NaN where the row attends to a key that `mark` (B, Hkv, S) has as NaN, else 0."""
    if call.structure.plain:
        return _seen_in_range(call, mark)
    local = local_form(call.structure)
    if local is not None and call.rows is None:
        keep = call.structure.key_mask(call.places())
        found = seen_locally(local, mark != 0, None if keep is None else keep[:, :, 0], call.query.shape[2])
        return _as_mark(found, mark)
    found = parts(call) if call.structure.documents and call.rows is None else None
    if found is not None:
        return _as_mark(seen_in_parts(call, found, mark != 0), mark)
    rows = block_rows_of(call) if call.structure.rest and call.rows is None else None
    if rows is not None:
        keep = call.structure.key_mask(call.places())
        return _as_mark(seen_in_blocks(rows, mark != 0, None if keep is None else keep[:, :, 0]), mark)
    attend = call.attend()
    assert attend is not None  # a call without a mask has an empty structure
    bad = mark != 0
    if attend.shape[1] > 1:
        found = (attend & bad.repeat_interleave(call.group, dim=1)[:, :, None]).any(dim=-1)
    else:
        found = _any_product(attend[:, 0], bad)
    return _as_mark(found, mark)


def _seen_in_range(call: Call, mark: Tensor) -> Tensor:
    """The same for a mask that is one range of keys per row and a key mask: from a running sum over the keys."""
    form, S, T = call.structure, mark.shape[2], call.query.shape[2]
    keep = form.key_mask(call.places())
    if keep is not None:
        mark = mark.masked_fill(~keep[:, :, 0], 0.0)
    if not form.banded:
        return mark.sum(dim=-1, keepdim=True)
    if form.causal and T == S:
        return mark.cumsum(dim=-1)
    assert isinstance(form.offset, int)  # a plain structure has no other
    return _as_mark(seen_in_band(mark != 0, form.offset, form.left, form.right, T), mark)


def _as_mark(found: Tensor, mark: Tensor) -> Tensor:
    return torch.zeros(found.shape, dtype=mark.dtype, device=mark.device).masked_fill(found, float("nan"))


def _any_product(attend: Tensor, bad: Tensor) -> Tensor:
    """(B, Hkv, T): any(attend[b, t, s] and bad[b, h, s]) as a matrix product, without a B x Hkv x T x S tensor."""
    B, heads, S = bad.shape
    table, marks = attend.float().expand(-1, -1, S), bad.float()
    if attend.shape[0] == 1:
        return (marks.reshape(B * heads, S) @ table[0].mT).reshape(B, heads, table.shape[1]) > 0
    return marks @ table.mT > 0
