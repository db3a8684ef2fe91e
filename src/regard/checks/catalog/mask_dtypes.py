"""A 0/1 mask means the same in every dtype that is accepted."""

from __future__ import annotations

from dataclasses import replace

from regard.checks.case import Case, Verdict
from regard.checks.masks import keep_pattern, mask_uses, masked, real_rows
from regard.checks.rule import rule


@rule("ATT108", kinds=("mask-dtype",))
def mask_dtypes(case: Case) -> list[Verdict]:
    """Where a boolean mask works, the same mask as integers either works too or raises.

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
            names = case.evidence.says(r"\b(bool|boolean)\b"), case.evidence.says(r"\b(u?int\d*|integers?|long)\b")
            said = "the text says bool" if names[0] else "the text names no dtype"
            said = f"the text says {names[0]} and {names[1]}" if all(names) else said
            out.append(
                Verdict(
                    "error" if all(names) else "question" if names[0] else "warning",
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
