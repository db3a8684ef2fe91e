"""For each rule on what must not be seen: the two runs that show where in a model it comes in."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from regard.checks.call import Call
from regard.checks.case import Batch, Case, Verdict
from regard.checks.culprit import Culprit, Run, find_culprit, run_of
from regard.checks.influence import influence, replace_token
from regard.checks.mask_use import MaskUse
from regard.checks.masks import call_for, keep_pattern, named_mask, replaced


def culprit_of(case: Case, code: str, verdict: Verdict) -> Culprit | None:
    """The module at which it comes in, for rules that have two runs to compare and subjects that have parts."""
    make = RUNS.get(code)
    runs = make(case, verdict) if make is not None and case.subject.is_module else None
    return find_culprit(case, *runs) if runs is not None else None


def _use(case: Case, verdict: Verdict) -> tuple[MaskUse, Call] | None:
    use = named_mask(case, verdict.message)
    return (use, call_for(case, use.parameter)) if use is not None else None


def _rows(call: Call, batch: Batch, use: MaskUse, keep: Tensor) -> dict[int, Tensor] | None:
    """Hidden tokens may change; everything else may not. None where queries and keys cannot be told apart by their number."""
    rows = {keep.shape[1]: keep}
    for name, x in batch.items():
        if name != use.source:
            if x.shape[1] in rows:
                return None
            rows[x.shape[1]] = torch.ones(x.shape[:2], dtype=torch.bool)
    return rows


def _hidden_content(case: Case, verdict: Verdict) -> tuple[Run, Run] | None:
    named = _use(case, verdict)
    if named is None:
        return None
    use, call = named
    batch = case.sample(1, call=call)
    keep = keep_pattern(use, batch)
    rows = _rows(call, batch, use, keep)
    if rows is None:
        return None
    masks = use.arguments(keep, batch[call.query].shape[1], case.subject.dtype)
    return run_of(case, call, batch, rows, masks), run_of(case, call, replaced(batch, use, keep, 5.0), rows, masks)


def _trimmed(case: Case, verdict: Verdict) -> tuple[Run, Run] | None:
    named = _use(case, verdict)
    if named is None:
        return None
    use, call = named
    batch = {n: x[:1] for n, x in case.sample(1, call=call).items()}
    keep = torch.ones(batch[use.source].shape[:2], dtype=torch.bool)
    keep[:, -2:] = False
    short = {n: x[:, :-2] if n == use.source else x for n, x in batch.items()}
    every = torch.ones(short[use.source].shape[:2], dtype=torch.bool)
    long_rows, short_rows = _rows(call, batch, use, keep), _rows(call, short, use, every)
    if long_rows is None or short_rows is None:
        return None
    T, dtype = batch[call.query].shape[1], case.subject.dtype
    masks = use.arguments(keep, T, dtype), use.arguments(every, short[call.query].shape[1], dtype)
    return run_of(case, call, batch, long_rows, masks[0]), run_of(case, call, short, short_rows, masks[1])


def _future(case: Case, verdict: Verdict) -> tuple[Run, Run]:
    found = influence(case)
    n = found.sees.shape[1]
    ahead = found.change * torch.ones(n, n, dtype=torch.bool).triu(1)
    token = int(ahead.amax(0).argmax())
    batch = case.sample()
    moved = {name: x.clone() for name, x in batch.items()}
    replace_token(moved[case.call.query], 0, token, number=token)
    rows = torch.ones(batch[case.call.query].shape[:2], dtype=torch.bool)
    rows[0, token:] = False
    return run_of(case, case.call, batch, {n: rows}), run_of(case, case.call, moved, {n: rows})


def _other_items(case: Case, verdict: Verdict) -> tuple[Run, Run]:
    batch = case.sample()
    moved = {name: x.clone() for name, x in batch.items()}
    rows = {}
    for x in moved.values():
        rows[x.shape[1]] = torch.zeros(x.shape[:2], dtype=torch.bool)
        rows[x.shape[1]][0] = True
        for b in range(1, x.shape[0]):
            for t in range(x.shape[1]):
                replace_token(x, b, t, number=b * 100 + t)
    return run_of(case, case.call, batch, rows), run_of(case, case.call, moved, rows)


RUNS: dict[str, Callable[[Case, Verdict], tuple[Run, Run] | None]] = {
    "ATT101": _hidden_content, "ATT102": _trimmed, "ATT201": _future, "ATT301": _other_items,
}  # fmt: skip
