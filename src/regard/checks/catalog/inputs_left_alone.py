"""A call leaves its arguments as they were."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.checks.case import Case, Verdict
from regard.checks.masks import call_for, keep_pattern
from regard.checks.rule import rule
from regard.checks.subject import invoke, untouched_globals


@rule("ATT704", kinds=("input-mutated",))
def inputs_left_alone(case: Case) -> list[Verdict]:
    """Inputs and masks are bit-identical after the call, and a second call with them gives the same.

    What goes wrong: an in-place operator on an argument (mask.sub_(1), x += positions, masked_fill_ on the caller's tensor).
    Why it matters: the second layer, or the second step, gets another mask.

    Bad:
        scores = scores + mask.sub_(1).mul_(1e4)
    Good:
        scores = scores + (mask - 1) * 1e4
    """
    out = []
    tried = [(case.call, None, False)]
    tried += [(call_for(case, u.parameter), u, empty) for u in case.masks for empty in (False, True)]
    for call, use, empty in tried:
        batch = case.sample(1, call=call)
        kwargs = call.lay_out(batch, case.subject.dtype)
        if use is not None:
            keep = keep_pattern(use, batch)
            keep[0] &= not empty  # some repair a row without keys in the caller's mask
            kwargs[use.parameter] = use.encode(keep, batch[call.query].shape[1], case.subject.dtype)
        before = {n: v.clone() for n, v in kwargs.items() if isinstance(v, Tensor)}
        module = case.subject.instance(fresh=True)
        with untouched_globals(case.seed), torch.no_grad():
            invoke(module, kwargs)
        changed = [
            n
            for n, v in before.items()
            if not torch.equal(kwargs[n], v)
            and not bool((torch.isnan(kwargs[n]) & torch.isnan(v)).all() if v.is_floating_point() else False)
        ]
        if changed and not any(changed[0] in v.message for v in out):
            out.append(
                Verdict(
                    "error",
                    f"the call changes its argument {changed[0]} in place",
                    kind="input-mutated",
                    measured=f"{int((kwargs[changed[0]] != before[changed[0]]).sum())} of {before[changed[0]].numel()} entries changed",
                    allowed="none",
                    example="one call",
                    cause=f"an in-place operator on {changed[0]}",
                    fix="work on a new tensor: no trailing underscore, no +=",
                )
            )
    return out
