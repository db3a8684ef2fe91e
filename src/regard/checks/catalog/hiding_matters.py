"""Hiding a real key changes something."""

from __future__ import annotations

import re
from dataclasses import replace

import torch

from regard.checks.call import Call
from regard.checks.case import Case, Verdict
from regard.checks.guarded import guarded
from regard.checks.infer import float_tensors
from regard.checks.mask_cause import mask_cause
from regard.checks.mask_owner import Swapped, swapped_mask
from regard.checks.mask_use import MaskUse
from regard.checks.masks import keep_pattern, mask_uses, masked
from regard.checks.rule import rule

ABSENT = ("mem", "memory", "context", "encoder", "cross", "head", "rel", "past")


@rule("ATT105", kinds=("mask-ignored", "mask-wrong-source"))
def hiding_matters(case: Case) -> list[Verdict]:
    """Hiding a key that had weight changes the output, for a batch of one as for more.

    Of two streams with a mask each, the mask with a stream's name is also the one that hides it, in every output.
    What goes wrong: the mask argument is accepted and never used, used for another stream, or skipped when the batch
    (or the length) is one.
    Why it matters: callers believe that padding is hidden.

    Bad:
        if mask is not None and mask.shape[0] > 1: ...
    Good:
        if mask is not None: ...
    """
    out = []
    swapped = swapped_mask(case)
    for use, call in mask_uses(case):
        if swapped is not None and use.parameter == swapped.mask:
            out.append(_of_the_other_stream(swapped))
            continue
        if not call.is_cross and any(w in use.parameter.lower() for w in ABSENT) and not use.changes:
            case.notes.append(f"{use.parameter}: not exercised, the stream that it belongs to was not given")
            continue
        if not use.changes and (reason := _may_hide_nothing(case, call, use)):
            case.notes.append(f"{use.parameter}: not exercised, {reason}")
            continue
        if not use.changes and (setting := _other_mode(case, use)):
            out.append(_off(use, setting))
            continue
        if not use.changes and _changes_elsewhere(case, call, use):
            case.notes.append(f"{use.parameter}: it changes another output than the one that is looked at")
            continue
        if not use.changes:
            kind, cause, fix = mask_cause(case, call, use)
            alone = (
                call.is_cross and call.sources[use.source].batch == 1
            )  # no second item ran: which axis is the batch?
            out.append(
                Verdict(
                    "question" if alone else "error",
                    f"{use.parameter} has no effect: hiding keys changes nothing, in any shape or dtype that was accepted"
                    + ("; no call with two items ran: is the first axis the batch?" if alone else ""),
                    kind=kind,
                    measured=0.0,
                    allowed="a change",
                    example=f"{use.shape} mask, {use.dtype}",
                    cause=cause,
                    fix=fix,
                )
            )
        elif use.works and call.sources[use.source].batch > 1 and not _works_alone(case, call, use):
            out.append(_ignored_alone(use))
    return out


def _may_hide_nothing(case: Case, call: Call, use: MaskUse) -> str | None:
    """Why an argument that changed nothing, filled as it was, may be right; None where nothing speaks for it."""
    if use.shape == "lengths" and any(p.endswith("]") for p in call.arguments):
        return "the streams come as a list, which says how long they are"
    if use.shape == "lengths" and _one_number(case, use):
        return "it may be one number for all items, and is not needed"
    if use.added and not use.said and case.evidence.dtype(use.parameter) is None:
        return "0 and 1 change nothing and other numbers do: it may hold scores"
    return None


def _ignored_alone(use: MaskUse) -> Verdict:
    return Verdict(
        "error",
        f"{use.parameter} has no effect when the batch holds one item",
        kind="mask-ignored",
        measured=0.0,
        allowed="a change",
        example="batch 1",
        cause="the mask is skipped for a batch of one (a shape test, or squeeze())",
        fix="test `mask is not None` only",
    )


def _of_the_other_stream(found: Swapped) -> Verdict:
    return Verdict(
        "error",
        f"content of {found.stream} hidden by {found.mask} changes {found.path} by {found.change:.2g} (relative); hidden by {found.by} instead, it does not",
        kind="mask-wrong-source",
        measured=found.change,
        allowed=0.0,
        example="both streams of one length, inner tokens of one hidden",
        cause=f"{found.stream} gives the keys, and they are masked with {found.by}, which happens to fit where the lengths are equal",
        fix=f"mask the keys of {found.stream} with {found.mask}",
    )


def _one_number(case: Case, use: MaskUse) -> bool:
    """An optional num_frames may say how a batch was folded; lengths may not."""
    optional = use.parameter not in case.signature.required
    return optional and re.match(r"(n|num|nb|number_of)_", use.parameter) is not None


def _changes_elsewhere(case: Case, call: Call, use: MaskUse) -> bool:
    """Does hiding a token of any stream change another of the tensors that it returns?"""
    for source in call.sources:
        batch, other = case.sample(1, call=call), replace(use, source=source)
        keep = keep_pattern(other, batch)
        for shape in dict.fromkeys((use.shape, "BS", "B11S")):
            tried = replace(other, shape=shape)
            try:
                runs = [
                    case.raw(batch, call=call, extra=tried.arguments(k, batch[call.query].shape[1], case.subject.dtype))
                    for k in (keep, torch.ones_like(keep))
                ]
            except Exception:
                continue
            pairs = list(zip(*([t for _, t in float_tensors(raw)] for raw in runs)))
            if any(
                a.shape == b.shape and case.difference(a.double(), b.double()) > case.tolerance for a, b in pairs[1:]
            ):
                return True
    return False


def _other_mode(case: Case, use: MaskUse) -> str | None:
    """The setting that switches this mask off, where another mask of the same tokens works: each mode has a mask of its own."""
    if not any(m.works and m.source == use.source for m in case.masks):
        return None
    return guarded(case.subject.pristine, case.subject.forward, use.parameter)


def _off(use: MaskUse, setting: str) -> Verdict:
    return Verdict(
        "question",
        f"{use.parameter} has no effect with {setting}: is it meant for another mode?",
        kind="mask-ignored",
        measured=0.0,
        allowed="a change",
        cause=f"it is read only without {setting}",
        fix="refuse it in this mode",
    )


def _works_alone(case: Case, call: Call, use: MaskUse) -> bool:
    batch = {n: x[:1] for n, x in case.sample(1, call=call).items()}
    keep = keep_pattern(use, batch)
    try:
        plain = masked(case, call, use, batch, torch.ones_like(keep))
        return case.difference(masked(case, call, use, batch, keep), plain) > case.tolerance
    except Exception:
        return True  # a batch of one does not run: loud, not silent
