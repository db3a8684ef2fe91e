"""Why items of a batch see each other: the pattern of who sees whom names the cause."""

from __future__ import annotations

import re

import torch
from torch import Tensor, nn

from regard.checks.case import Case
from regard.checks.influence import replace_token
from regard.checks.sites import watch


def change_by_others(case: Case) -> float:
    """How much the first or the last item changes (relative) when only the other items of its batch are replaced."""
    return change_and_item(case)[0]


def change_and_item(case: Case) -> tuple[float, int]:
    """The same with the number of the item that changes more: what reads item 0 for all shows in the others alone."""
    if "change_by_others" not in case.facts:
        batch, base = case.base
        size = max(float(base.abs().max()), 1e-12)
        found = []
        last = base.shape[0] - 1 if all(x.shape[0] == base.shape[0] for x in batch.values()) else 0
        for item in dict.fromkeys((0, last)):
            moved = {n: x.clone() for n, x in batch.items()}
            for x in moved.values():
                for b in range(x.shape[0]):
                    for t in range(x.shape[1]) if b != item else ():
                        replace_token(x, b, t, number=b * 100 + t)
            out = case.run(moved)
            found.append((float((out[item] - base[item]).abs().nan_to_num(0).max()) / size, item))
            if found[-1][0] > case.big:
                break
        case.facts["change_by_others"] = max(found, key=lambda f: f[0])
    return case.facts["change_by_others"]


def flat_influence(case: Case) -> Tensor:
    """(B * N, B * N) bool: does output row r (item-major) react to input row s?"""
    batch, base = case.base
    source = batch[case.call.keys]
    count, tokens = source.shape[:2]
    size = max(float(base.abs().max()), 1e-12)
    columns = []
    for b in range(count):
        for t in range(tokens):
            moved = {n: x.clone() for n, x in batch.items()}
            replace_token(moved[case.call.keys], b, t, number=b * tokens + t)
            out = case.run(moved)
            columns.append(((out - base).abs().amax(-1) / size > case.tolerance).flatten())
    return torch.stack(columns, 1)


def _softmax_over_batch(case: Case) -> bool:
    """A softmax along an axis that is as long as the batch, or as the batch times the queries, and leads."""
    batch, tokens = case.call.sources[case.call.query].batch, case.call.sources[case.call.query].tokens
    run = watch(case, case.sample())
    for site in run.sites:
        made = site.weights_made
        if (
            made is not None
            and site.softmax_axis is not None
            and site.softmax_axis != -1
            and made.ndim + site.softmax_axis == 0
            and made.shape[0] in (batch, batch * tokens)
        ):
            return True
    return any(
        re.search(rf"softmax over axis (0|-\d+) of \({batch}, ", note) and " axis 0 " in note
        for note in run.seen.unknown
    )


def cause_of_cross_talk(case: Case) -> tuple[str, str, str]:
    """(kind, likely cause, fix)."""
    if _softmax_over_batch(case):
        return "softmax-axis-batch", "the weights sum to 1 along the batch axis", "softmax over the key axis: dim=-1"
    if case.call.follows and not case.call.is_cross:
        _batch, base = case.base
        rows = base.shape[0] * base.shape[1]
        if rows <= 64:
            sees = flat_influence(case)
            residue = torch.arange(rows) % base.shape[0]
            if torch.equal(sees, residue[:, None] == residue[None]):
                return (
                    "batch-first",
                    "rows r and s see each other exactly when r = s modulo the batch size: (B, L) was read as (L, B) by view or reshape",
                    "use transpose(0, 1) between batch-first and sequence-first, never reshape",
                )
    if any(isinstance(m, nn.MultiheadAttention) and not m.batch_first for m in _modules(case)):
        return (
            "batch-first",
            "an nn.MultiheadAttention with batch_first=False is given (B, L, D): it attends along the batch",
            "construct it with batch_first=True",
        )
    return (
        "batch-cross-talk",
        "the axis that holds batch x heads is folded in one order and unfolded in the other, or a reduction runs over the batch axis",
        "fold as (B, H) and unfold as (B, H): view(B, H, L, D) after reshape(B * H, L, D)",
    )


def _modules(case: Case) -> list[nn.Module]:
    return list(case.subject.pristine.modules()) if case.subject.is_module else []
