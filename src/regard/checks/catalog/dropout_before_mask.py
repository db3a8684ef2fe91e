"""In training, dropout lets no hidden key through."""

from __future__ import annotations

from regard.checks.case import Case, Verdict
from regard.checks.masks import leak, mask_uses
from regard.checks.rule import rule


@rule("ATT506", kinds=("dropout-wrong-place",))
def dropout_before_mask(case: Case) -> list[Verdict]:
    """In train mode with a fixed seed, replacing hidden content leaves real outputs as they are.

    What goes wrong: dropout is applied to the scores, or to the mask, before the softmax: a hidden key whose score is
    dropped to 0 takes part again.
    Why it matters: padding leaks in training only, which no eval test sees.

    Bad:
        weights = F.dropout(scores.masked_fill(~keep, -1e9), p).softmax(-1)
    Good:
        weights = F.dropout(scores.masked_fill(~keep, -1e9).softmax(-1), p)
    """
    case.need(case.dropout > 0.0, "no dropout rate above 0 was found")
    out = []
    for use, call in mask_uses(case):
        if not use.works:
            continue
        change = max(leak(case, call, use, size, train=True)[0] for size in (1.0, 5.0))
        if change > case.big:
            out.append(
                Verdict(
                    "error",
                    f"in training, content hidden by {use.parameter} changes real outputs by {change:.2g} (relative); in eval it does not",
                    kind="dropout-wrong-place",
                    measured=change,
                    allowed=case.tolerance,
                    example="train mode, fixed seed",
                    cause="dropout stands before the softmax, or on the mask",
                    fix="apply dropout to the weights, after the softmax",
                )
            )
    return out
