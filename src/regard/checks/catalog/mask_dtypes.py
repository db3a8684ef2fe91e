"""A 0/1 mask means the same in every dtype that is accepted."""

from __future__ import annotations

import re
from dataclasses import replace

import torch

from regard.checks.call import Call
from regard.checks.case import Case, Verdict
from regard.checks.mask_use import MaskUse
from regard.checks.masks import keep_pattern, mask_uses, masked, real_rows
from regard.checks.rule import rule


@rule("ATT108", kinds=("mask-dtype",))
def mask_dtypes(case: Case) -> list[Verdict]:
    """Where a boolean mask works, the same mask as integers either works too or raises.

    It is an error where the text speaks of both, or gives the mask's meaning in numbers ("1 = token") and integers hide nothing.
    What goes wrong: `~mask` on integers gives -1 and -2, which are both true; `1 - mask` fails on booleans only.
    Why it matters: tokenizers return integers.

    Bad:
        scores = torch.where(~mask, -1e9, scores)
    Good:
        scores = scores.masked_fill(mask == 0, float("-inf"))
    """
    out = []
    for use, call in mask_uses(case):
        if not use.works or use.dtype not in ("bool", "int"):
            continue
        other = replace(use, dtype="int" if use.dtype == "bool" else "bool")
        batch = case.sample(1, call=call)
        keep = keep_pattern(use, batch)
        right = masked(case, call, use, batch, keep)
        try:
            got = masked(case, call, other, batch, keep)
        except Exception:
            continue  # loud
        rows = real_rows(call, use, keep, right)
        change = case.difference(got[rows], right[rows])
        if change > case.big:
            level, said = _said(case, use, call, other)
            out.append(
                Verdict(
                    level,
                    f"{use.parameter} as {other.dtype} runs and gives another output ({change:.2g}, relative) than as {use.dtype}; {said}",
                    kind="mask-dtype",
                    measured=change,
                    allowed=case.tolerance,
                    example=f"the same 0/1 mask, {use.dtype} and {other.dtype}",
                    cause="~ on integers, or a comparison that only fits one dtype",
                    fix="mask = mask.bool() first, or refuse other dtypes",
                )
            )
    return out


def _said(case: Case, use: MaskUse, call: Call, other: MaskUse) -> tuple[str, str]:
    """How sure the author's words make it that both dtypes are meant, and which words."""
    text = case.evidence.says
    names = text(r"\b(bool|boolean)\b"), text(r"\b(u?int\d*|integers?|long)\b")
    if all(names):
        return "error", f"the text says {names[0]} and {names[1]}"
    if names[0]:
        return "question", "the text says bool"
    annotation = str(case.subject.signature().parameters[use.parameter].annotation)
    numbers = re.match(r"[01]\b|ones?\b|zeros?\b|non-?zero|[!>]", use.said) and "everywhere" not in use.said
    if numbers and other.dtype == "int" and "bool" not in annotation.lower() and _hides_nothing(case, call, other):
        return "error", f"the text speaks of numbers ({use.said}), and as {other.dtype} it hides nothing"
    return "warning", "the text names no dtype"


def _hides_nothing(case: Case, call: Call, use: MaskUse) -> bool:
    """Is the output the same whatever this mask says, 0 or 1?"""
    batch = case.sample(1, call=call)
    keep = keep_pattern(use, batch)
    some, every = (masked(case, call, use, batch, k) for k in (keep, torch.ones_like(keep)))
    return case.difference(some, every) <= case.tolerance
