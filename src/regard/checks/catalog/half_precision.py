"""Half precision stays finite and near."""

from __future__ import annotations

import torch

from regard.checks.call import Call
from regard.checks.case import Case, NotExercised, Verdict
from regard.checks.masks import call_for, keep_pattern, masked, real_rows
from regard.checks.rule import rule

ALLOWED = {torch.bfloat16: 0.2, torch.float16: 0.05}  # relative; a plain low-precision run of one layer stays far below
EPS = {torch.bfloat16: 2**-8, torch.float16: 2**-11}


@rule("ATT603", kinds=("half-overflow-mask", "finite-min-overflow", "logit-overflow"))
def half_precision(case: Case) -> list[Verdict]:
    """In float16 and bfloat16 the output is finite, with and without masks, and within a few units of rounding of float32.

    What goes wrong: a mask constant beyond 65504 becomes inf, and (1 - mask) * constant is 0 * inf = NaN; two finite
    minima added overflow; a softmax in half precision loses the small weights.
    Why it matters: the model trains in float32 and gives NaN where it is served.

    Bad:
        scores = scores + (1.0 - mask.half()) * -1e20
    Good:
        scores = scores.masked_fill(mask == 0, torch.finfo(scores.dtype).min)
    References: flash-attention's tests (error against the error of a plain low-precision run).
    """
    case.need(case.subject.is_module, "a function without parameters computes in the dtype that it is given")
    case.need_determinism()
    out: list[Verdict] = []
    ran = 0
    for dtype in (torch.float16, torch.bfloat16):
        try:
            verdict = _one(case, dtype)
        except NotExercised:
            raise
        except Exception as error:
            case.notes.append(f"{dtype} did not run: {type(error).__name__}: {str(error)[:80]}")
            continue
        ran += 1
        if verdict is not None:
            out.append(verdict)
    case.need(ran > 0, "it runs in neither float16 nor bfloat16")
    return out[:1]


def _one(case: Case, dtype: torch.dtype) -> Verdict | None:
    batch = case.sample(2)
    full = case.run(batch, dtype=torch.float32)
    low = case.run(batch, dtype=dtype)
    name = str(dtype).removeprefix("torch.")
    if bool(torch.isfinite(full).all()) and not bool(torch.isfinite(low).all()):
        return Verdict(
            "error",
            f"in {name} the output is not finite (in float32 it is)",
            kind="logit-overflow",
            measured="not finite",
            allowed="finite",
            example=f"{name}, plain call",
            cause="a sum, a product or a constant beyond the range of the dtype",
            fix="scale the queries first; keep exp, softmax and sums in float32",
        )
    change = case.difference(low, full)
    if change > ALLOWED[dtype] and not _rough(case, batch, dtype, change):
        return Verdict(
            "question",
            f"in {name} the output is {change:.2g} (relative) away from float32: is that meant?",
            kind="logit-overflow",
            measured=change,
            allowed=ALLOWED[dtype],
            example=f"{name}, plain call",
            cause="something is computed in half precision that needs more",
            fix="softmax and positions in float32",
        )
    for use in case.masks:
        if not use.works:
            continue
        found = _masked(case, call_for(case, use.parameter), use, dtype, name)
        if found is not None:
            return found
    return None


def _masked(case: Case, call: Call, use, dtype: torch.dtype, name: str) -> Verdict | None:
    batch = case.sample(2, call=call)
    keep = keep_pattern(use, batch)
    full, low = (masked(case, call, use, batch, keep, dtype=d) for d in (torch.float32, dtype))
    rows = real_rows(call, use, keep, full)
    if bool(torch.isfinite(full[rows]).all()) and not bool(torch.isfinite(low[rows]).all()):
        return Verdict(
            "error",
            f"in {name}, with {use.parameter}, the output is not finite (in float32 it is)",
            kind="half-overflow-mask",
            measured="not finite",
            allowed="finite",
            example=f"{name}, two keys hidden",
            cause=f"the mask constant overflows {name}, or 0 * inf",
            fix="masked_fill with torch.finfo(scores.dtype).min",
        )
    empty = keep.clone()
    empty[0] = False
    full_empty, low_empty = (masked(case, call, use, batch, empty, dtype=d) for d in (torch.float32, dtype))
    if bool(torch.isfinite(full_empty).all()) and not bool(torch.isfinite(low_empty).all()):
        return Verdict(
            "question",
            f"in {name}, when {use.parameter} hides every key of an item, the output is not finite (in float32 it is): can that happen?",
            kind="finite-min-overflow",
            measured="not finite",
            allowed="finite",
            example=f"{name}, item 0 fully hidden",
            cause=f"the mask constant plus a score leaves the range of {name}, or two constants are added",
            fix="masked_fill, not addition; combine masks with & before one fill",
        )
    if case.difference(low[rows], full[rows]) > 5 * ALLOWED[dtype]:
        return Verdict(
            "warning",
            f"in {name}, with {use.parameter}, the output is {case.difference(low[rows], full[rows]):.2g} (relative) away from float32",
            kind="half-overflow-mask",
            measured=case.difference(low[rows], full[rows]),
            allowed=ALLOWED[dtype],
            example=f"{name}, two keys hidden",
            cause="the mask constant does not survive the dtype",
            fix="masked_fill with torch.finfo(scores.dtype).min",
        )
    return None


def _rough(case: Case, batch: dict, dtype: torch.dtype, change: float) -> bool:
    """Does the float32 output move as much when the input is rounded to the dtype? Then the function itself is that steep."""
    rounded = {n: x.to(dtype).to(x.dtype) if x.is_floating_point() else x for n, x in batch.items()}
    return case.difference(case.run(rounded, dtype=torch.float32), case.run(batch, dtype=torch.float32)) * 4 > change
