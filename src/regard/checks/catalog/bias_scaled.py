"""An additive bias is added to the scaled scores as it is."""

from __future__ import annotations

import torch

from regard.checks.case import Case, Verdict
from regard.checks.masks import mask_uses
from regard.checks.rule import rule
from regard.checks.sites import watch


@rule("ATT107", kinds=("mask-scaled",))
def bias_scaled(case: Case) -> list[Verdict]:
    """A finite additive mask or bias changes the scores by just what it says.

    What goes wrong: it is added before the division by sqrt(head_dim), or divided together with the scores.
    Why it matters: -10 becomes -1.25; a bias learned elsewhere has another size here.

    Bad:
        scores = (q @ k.mT + bias) / math.sqrt(d)
    Good:
        scores = q @ k.mT / math.sqrt(d) + bias
    """
    out = []
    for use, call in mask_uses(case):
        if use.dtype != "additive" or not use.works:
            continue
        batch = case.sample(1, call=call)
        keep = torch.ones(batch[use.source].shape[:2], dtype=torch.bool)
        plain = use.encode(keep, batch[call.query].shape[1], case.subject.dtype)
        keep[:, -1] = False
        moved = torch.where(
            use.encode(keep, batch[call.query].shape[1], case.subject.dtype) < -1.0, torch.full_like(plain, -2.0), plain
        )
        before = watch(case, batch, call=call, extra={use.parameter: plain}).sites
        after = watch(case, batch, call=call, extra={use.parameter: moved}).sites
        for a, b in zip(before, after):
            was, now = a.scores(), b.scores()
            if was is None or now is None or was.shape != now.shape:
                continue
            delta = (now - was).double()[..., -1]
            step = float(delta.mean())
            if float((delta - step).abs().max()) < 1e-6 and abs(step) > 1e-6 and abs(step + 2.0) > 1e-3:
                out.append(
                    Verdict(
                        "error",
                        f"an additive {use.parameter} of -2 changes the scores by {step:.4g}: it is scaled with them",
                        kind="mask-scaled",
                        measured=step,
                        allowed=-2.0,
                        where=a.where or None,
                        example="-2 on the last key",
                        cause="the bias is added before the division by sqrt(head_dim)",
                        fix="scores / sqrt(d) + bias",
                    )
                )
                break
    return out
