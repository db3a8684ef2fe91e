"""Block-sparse attention: each block of queries is a call with the blocks of keys that it sees, and with no other.

Axes: B samples, H query heads, Hkv key heads, T queries, S keys, M and N blocks of queries and of keys.
Which blocks are seen is read when the mask is made (`core.mask.spans`). Source of such patterns: Zaheer et al. 2020,
arXiv:2007.14062.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.core.call import Call
from regard.core.mask.sequences import Padding
from regard.core.mask.spans import Span, spans_of
from regard.core.mask.structure import Structure
from regard.core.mask.table import Blocks


@dataclass(frozen=True)
class Row:
    """One block of queries, and the spans of keys that it sees, in tokens."""

    queries: Span
    keys: tuple[Span, ...]


def block_rows_of(call: Call) -> list[Row] | None:
    """The blocks of a call, in order; None where its mask is no `blocks(layout)`, besides padding, or is not known.

    The layout is one for all samples and heads, and query 0 stands at position 0.
    """
    form = call.structure
    T, S = call.sizes[2:]
    if len(form.rest) != 1 or not isinstance(form.rest[0], Blocks) or form.banded or form.documents:
        return None
    blocks = form.rest[0]
    found = spans_of(blocks.layout)
    if found is None or not isinstance(form.offset, int) or form.offset != 0:
        return None
    tall, wide = blocks.sizes(call.places())
    rows = []
    for m in range(-(-T // tall)):
        seen = found[m] if m < len(found) else ()
        keys = tuple((begin * wide, min(end * wide, S)) for begin, end in seen if begin * wide < S)
        rows.append(Row((m * tall, min((m + 1) * tall, T)), keys))
    return rows


def share(call: Call, rows: list[Row]) -> float:
    """The part of all pairs of queries and keys that the blocks have."""
    pairs = sum((row.queries[1] - row.queries[0]) * sum(end - begin for begin, end in row.keys) for row in rows)
    return pairs / max(1, call.sizes[2] * call.sizes[3])


def attend_in_blocks(call: Call, rows: list[Row], run: Callable[[Call], Tensor]) -> Tensor:
    """(B, H, T, Dv): `run` on each block of queries, and 0 where it sees no block."""
    if not any(row.keys for row in rows):
        return call.unseen()
    B, H = call.sizes[:2]
    edges = sorted({0, call.sizes[3], *(edge for row in rows for span in row.keys for edge in span)})
    widths = [end - begin for begin, end in itertools.pairwise(edges)]
    queries = call.query.split([end - begin for begin, end in (row.queries for row in rows)], dim=2)
    keys, values = (dict(zip(edges, x.split(widths, dim=2), strict=False)) for x in (call.key, call.value))
    keep = call.structure.key_mask(call.places())
    done: list[Tensor | None] = []
    for row, query in zip(rows, queries, strict=True):
        begins = [edge for edge in edges if any(begin <= edge < end for begin, end in row.keys)]
        if not begins:
            done.append(None)
            continue
        mask = None if keep is None else Padding(_taken(keep[:, 0, 0], row.keys))
        form = Structure() if mask is None else Structure(padding=(mask,))
        tensors = {"query": query, "key": _joined(keys, begins), "value": _joined(values, begins)}
        bias = call.bias
        if bias is not None:
            bias = bias[:, :, slice(*row.queries)] if bias.shape[2] > 1 else bias
            bias = _taken(bias, row.keys) if bias.shape[3] > 1 else bias
        done.append(run(replace(call, **tensors, bias=bias, mask=mask, structure=form, _memo={})))
    dtype = next((x.dtype for x in done if x is not None), call.query.dtype)
    none = [
        call.query.new_zeros(B, H, row.queries[1] - row.queries[0], call.value.shape[3], dtype=dtype) for row in rows
    ]
    return torch.cat([empty if x is None else x for x, empty in zip(done, none, strict=True)], dim=2)


def seen_in_blocks(rows: list[Row], mark: Tensor, keep: Tensor | None) -> Tensor:
    """(B, Hkv, T) bool: which queries see a key that `mark` (B, Hkv, S) has; `keep` (B or 1, 1, S) or None."""
    mark = mark if keep is None else mark & keep
    found = []
    for row in rows:
        any_key = _taken(mark, row.keys).any(dim=-1, keepdim=True)
        found.append(any_key.expand(-1, -1, row.queries[1] - row.queries[0]))
    return torch.cat(found, dim=-1)


def _joined(parts: dict[int, Tensor], begins: list[int]) -> Tensor:
    return parts[begins[0]] if len(begins) == 1 else torch.cat([parts[begin] for begin in begins], dim=2)


def _taken(x: Tensor, spans: tuple[Span, ...]) -> Tensor:
    """The spans of the last axis, one after the other."""
    return torch.cat([x[..., :0], *(x[..., begin:end] for begin, end in spans)], dim=-1)
