"""Batches of which only parts matter: each document, or each sample without its padded keys, is a call of its own.

Axes: B samples, H query heads, Hkv key heads, T queries, S keys.
Needs to know where the parts lie, which is read when a mask is made (`core.mask.spans`) and never here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.core.call import Call
from regard.core.local_form import seen_in_band
from regard.core.mask import structure
from regard.core.mask.band import Band
from regard.core.mask.expression import And, Mask
from regard.core.mask.sequences import Lengths, Padding
from regard.core.mask.spans import Span, spans_of, without_holes


@dataclass(frozen=True)
class Part:
    """Queries of one sample that see keys of a span and no other."""

    sample: int
    queries: Span
    keys: Span
    holes: Tensor | None = None  # (1, keys) bool: which keys of the span are kept, where not all are


def parts(call: Call) -> list[Part] | None:
    """The parts of a call, sample by sample, in order; None where the mask has none or they are not known.

    Queries between them see nothing.
    """
    form = call.structure
    B, _, T, S = call.sizes
    masks = (*form.documents, *form.padding)
    if form.bound or form.rest or len(masks) != 1 or not isinstance(form.offset, int) or form.offset != 0:
        return None
    (mask,) = masks
    table = mask.keep if isinstance(mask, Padding) else mask.lengths if isinstance(mask, Lengths) else mask.ids
    spans = spans_of(table)
    if spans is None:
        return None
    by_sample = spans if len(spans) == B else spans * B
    if form.documents:
        return [Part(b, span, span) for b, found in enumerate(by_sample) for span in found] if T == S else None
    made = []
    for b, found in enumerate(by_sample):
        end = min(found[0][1], S)
        row = b if len(spans) == B else 0
        holes = None if without_holes(table)[row] or not isinstance(mask, Padding) else mask.keep[row : row + 1, :end]
        made += [Part(b, (0, T), (0, end), holes)] if end else []
    return made


def share(call: Call, found: list[Part]) -> float:
    """The part of all pairs of queries and keys that the parts have."""
    B, _, T, S = call.sizes
    pairs = sum((p.queries[1] - p.queries[0]) * (p.keys[1] - p.keys[0]) for p in found)
    return pairs / max(1, B * T * S)


def attend_in_parts(call: Call, found: list[Part], run: Callable[[Call], Tensor]) -> Tensor:
    """(B, H, T, Dv): `run` on each part, and 0 between them."""
    if not found:
        return call.unseen()
    B, H, T, _ = call.sizes
    Dv = call.value.shape[3]
    samples = [[x.unsqueeze(0) for x in tensor.unbind(0)] for tensor in (call.query, call.key, call.value)]
    done = [
        [(part, run(_call_of(call, part, *(x[b] for x in samples)))) for part in found if part.sample == b]
        for b in range(B)
    ]
    dtype = next((output.dtype for row in done for _, output in row), call.query.dtype)  # autocast may have changed it
    if not torch.is_grad_enabled():
        joined = call.query.new_zeros(B, H, T, Dv, dtype=dtype)
        for part, output in (pair for row in done for pair in row):
            joined[part.sample, :, slice(*part.queries)] = output[0]
        return joined
    rows = []
    for row in done:  # joined and not written in place: a write in place would copy the whole in the backward
        pieces, at = [], 0
        for part, output in row:
            begin, end = part.queries
            pieces += [call.query.new_zeros(1, H, begin - at, Dv, dtype=dtype), output]
            at = end
        pieces.append(call.query.new_zeros(1, H, T - at, Dv, dtype=dtype))
        rows.append(torch.cat([x for x in pieces if x.shape[2] > 0], dim=2) if T else pieces[-1])
    return torch.cat(rows)


def _call_of(call: Call, part: Part, query: Tensor, key: Tensor, value: Tensor) -> Call:
    (q0, q1), (k0, k1) = part.queries, part.keys
    form = call.structure
    factors: list[Mask] = []
    if form.banded:
        factors.append(Band(form.left, form.right, q0 - k0))
    if part.holes is not None:
        factors.append(Padding(part.holes))
    mask = None if not factors else factors[0] if len(factors) == 1 else And(tuple(factors))
    small = structure.of(mask).within(q1 - q0, k1 - k0)
    bias = (
        None if call.bias is None else call.bias[part.sample : part.sample + 1] if call.bias.shape[0] > 1 else call.bias
    )
    if bias is not None:
        bias = bias[:, :, q0:q1] if bias.shape[2] > 1 else bias
        bias = bias[..., k0:k1] if bias.shape[3] > 1 else bias
    tensors = {"query": query[:, :, q0:q1], "key": key[:, :, k0:k1], "value": value[:, :, k0:k1], "bias": bias}
    return replace(call, **tensors, mask=None if small.empty else mask, structure=small, _memo={})


def seen_in_parts(call: Call, found: list[Part], mark: Tensor) -> Tensor:
    """(B, Hkv, T) bool: which queries see a key that `mark` (B, Hkv, S) has."""
    form = call.structure
    seen = mark.new_zeros(*mark.shape[:2], call.query.shape[2])
    for part in found:
        (q0, q1), (k0, k1) = part.queries, part.keys
        marked = mark[part.sample : part.sample + 1, :, k0:k1]
        marked = marked if part.holes is None else marked & part.holes[:, None]
        seen[part.sample : part.sample + 1, :, q0:q1] = seen_in_band(marked, q0 - k0, form.left, form.right, q1 - q0)
    return seen
