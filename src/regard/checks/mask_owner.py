"""Two streams with a mask each: does the mask that has a stream's name hide that stream, in every tensor that is returned?"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.checks.call import Call
from regard.checks.case import Batch, Case
from regard.checks.infer import float_tensors
from regard.checks.mask_use import MaskUse
from regard.checks.masks import keep_pattern, replaced

PER_KEY = ("BS", "B11S", "B1S")


@dataclass(frozen=True)
class Swapped:
    """`mask`, named after `stream`, does not hide it in the output at `path`; `by`, the mask of the other stream, does."""

    mask: str
    stream: str
    by: str
    path: str
    change: float


def swapped_mask(case: Case) -> Swapped | None:
    """The first mask whose stream is hidden by the mask of the other stream, where both streams have one length by chance only."""
    call = case.call
    if not call.is_cross or not call.follows or len(call.sources) != 2 or case.stochastic:
        return None
    owners = {m.parameter: (m, p) for m in case.masks if m.shape in PER_KEY and (p := _owner(call, m.parameter))}
    if len(owners) != 2 or len({call.arguments[p] for _, p in owners.values()}) != 2 or not _lengths_are_free(case):
        return None
    (first, one), (second, two) = owners.values()
    sources = {n: replace(s, grid=call.sources[call.query].grid) for n, s in call.sources.items()}
    equal = call.but(sources=sources)
    for mask, parameter, other in ((first, one, second), (second, two, first)):
        try:
            found = _swapped(case, equal, mask, parameter, other)
        except Exception:  # these lengths, or both masks together, are refused: loud
            continue
        if found is not None:
            return found
    return None


def _lengths_are_free(case: Case) -> bool:
    """Does it run with streams of two lengths? Else one mask may stand for both."""
    query, keys = (case.call.sources[n].tokens for n in (case.call.query, case.call.keys))
    if query != keys:
        return True
    try:
        case.run(case.sample(tokens={case.call.query: query, case.call.keys: keys + 2}))
    except Exception:
        return False
    return True


def _owner(call: Call, mask: str) -> str | None:
    """The argument whose name a mask has: "audio" for audio_mask."""
    return next((p for p in call.arguments if mask in (f"{p}_mask", f"mask_{p}", f"{p}_padding_mask")), None)


def _swapped(case: Case, call: Call, mask: MaskUse, parameter: str, other: MaskUse) -> Swapped | None:
    """Content of `parameter` at hidden places: does it reach an output under its own mask, and none under the other's?"""
    source = call.arguments[parameter]
    mine, theirs = replace(mask, source=source), replace(other, source=source)
    batch = case.sample(1, call=call)
    keep = keep_pattern(mine, batch)
    moved, every = replaced(batch, mine, keep, 5.0), torch.ones_like(keep)
    own = _changes(case, call, (batch, moved), {mine: keep, theirs: every}, keep)
    foreign = _changes(case, call, (batch, moved), {mine: every, theirs: keep}, keep)
    both = _changes(case, call, (batch, moved), {mine: every, theirs: every}, keep)
    for path, change in own.items():
        if change > case.big and both[path] > case.big and foreign[path] <= case.tolerance:
            return Swapped(mask.parameter, parameter, other.parameter, path, change)
    return None


def _changes(
    case: Case, call: Call, batches: tuple[Batch, Batch], masks: dict[MaskUse, Tensor], keep: Tensor
) -> dict[str, float]:
    """path -> how far the rows that are not hidden move (relative), for every output with a row for each token."""
    queries = keep.shape[1]
    extra = {u.parameter: u.encode(k, queries, case.subject.dtype) for u, k in masks.items()}
    before, after = (dict(float_tensors(case.raw(b, call=call, extra=extra))) for b in batches)
    out = {}
    for path, tensor in before.items():
        if tensor.ndim == 3 and tensor.shape[:2] == keep.shape and tensor.shape[2] != keep.shape[1]:
            rows = after[path].double()[keep], tensor.double()[keep]
            out[".".join(map(str, path)) or "the output"] = case.difference(*rows)
    return out
