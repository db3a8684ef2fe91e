"""Without dropout, training and eval compute the same thing, with gradients and without."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch import nn

from regard.checks.call import Call
from regard.checks.case import Batch, Case, Verdict
from regard.checks.influence import influence
from regard.checks.masks import keep_pattern, real_rows
from regard.checks.no_dropout import NoDropout
from regard.checks.roles import constructor_role
from regard.checks.rule import rule
from regard.checks.subject import Subject


def without_dropout(case: Case) -> Any:
    """A copy of the subject with every dropout rate at 0."""
    module = case.subject.instance(fresh=True)
    for part in module.modules() if isinstance(module, nn.Module) else ():
        if isinstance(part, nn.modules.dropout._DropoutNd):
            part.p = 0.0
        for name, value in list(vars(part).items()):
            if isinstance(value, float) and constructor_role(name) == "dropout":
                setattr(part, name, 0.0)
    return module


def _batch_statistics(subject: Subject) -> bool:
    return subject.is_module and any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in subject.pristine.modules())


def _inputs(case: Case) -> list[tuple[str, Call, dict[str, Any], Any]]:
    """(name, call, extra arguments, mask) of the calls on which paths are compared."""
    out: list[tuple[str, Call, dict[str, Any], Any]] = [("plain call", case.call, {}, None)]
    if case.cross is not None:
        out.append(("with a context", case.cross, {}, None))
    for use in case.masks:
        from regard.checks.masks import call_for

        call = call_for(case, use.parameter)
        batch = case.sample(1, call=call)
        keep = keep_pattern(use, batch)
        queries = batch[call.query].shape[1]
        out.append(
            (f"with {use.parameter}", call, {use.parameter: use.encode(keep, queries, case.subject.dtype)}, (use, keep))
        )
    return out


@rule("ATT503", kinds=("path-mismatch", "mask-inverted"))
def train_equals_eval(case: Case) -> list[Verdict]:
    """With every dropout rate at 0, train() and eval() give the same output, with and without masks.

    What goes wrong: a branch on self.training (a fast path, a mask that is inverted in one of them, a cache).
    Why it matters: what was trained is not what is served.

    Bad:
        drop = mask if self.training else ~mask
    Good:
        one path for both modes
    """
    case.need(case.subject.is_module, "a function has no modes")
    case.need(not _batch_statistics(case.subject), "batch normalisation differs between modes by design")
    case.need_determinism()
    out = []
    for name, call, extra, mask in _inputs(case):
        batch = case.sample(1, call=call)
        results = []
        for train in (False, True):
            module = without_dropout(case).train(train)
            with NoDropout() if train else contextlib.nullcontext():
                results.append(case.run(batch, call=call, extra=extra, module=module))
        change = _compare(case, call, mask, *results)
        if change > case.big:
            case.need(not _random_in_training(case, call, batch, extra), "training is random by more than dropout")
            if _of_the_batch(case, call, mask):
                out.append(
                    Verdict(
                        "question",
                        f"in training an item's output depends on its batch ({name}), as with batch normalisation: is it meant?",
                        kind="path-mismatch",
                        measured=change,
                        allowed=case.tolerance,
                        example=f"{name}: equal for a batch of one item",
                    )
                )
                continue
            lost = not call.is_cross and call.follows and _causal_in_one(case)
            out.append(
                Verdict(
                    "error",
                    f"train and eval differ by {change:.2g} (relative) although dropout is 0 ({name})"
                    + (": one of them is causal, the other is not" if lost else ""),
                    kind="causal-missing" if lost else "path-mismatch",
                    measured=change,
                    allowed=case.tolerance,
                    example=name,
                    cause="a branch on self.training computes something else",
                    fix="use one path, and compare both in a test",
                )
            )
    return out


def _random_in_training(case: Case, call: Call, batch: Batch, extra: dict[str, Any]) -> bool:
    """Do two calls in training mode draw different things, with every dropout rate at 0?"""
    with NoDropout():
        outs = [
            case.run(batch, call=call, extra=extra, module=without_dropout(case).train(True), seed=seed)
            for seed in (0, 1)
        ]
    return case.difference(*outs) > case.tolerance


def _of_the_batch(case: Case, call: Call, mask: Any) -> bool:
    """Do both modes agree on a batch of one item?"""
    if mask is not None:
        return False
    one = case.sample(1, call=call, batch=1)
    try:
        outs = []
        for train in (False, True):
            with NoDropout():
                outs.append(case.run(one, call=call, module=without_dropout(case).train(train)))
    except Exception:  # one item does not run
        return False
    return case.difference(*outs) <= case.tolerance


def _causal_in_one(case: Case) -> bool:
    with NoDropout():
        return len({influence(case, module=without_dropout(case).train(t)).causal for t in (False, True)}) == 2


@rule("ATT504", kinds=("path-mismatch",))
def grad_mode(case: Case) -> list[Verdict]:
    """With gradients and under no_grad the output is the same.

    What goes wrong: a fast path is taken when gradients are off.
    Why it matters: evaluation inside training differs from evaluation at inference.

    Bad:
        if not torch.is_grad_enabled(): return sdpa(q, k, v)        # and the other path masks
    Good:
        one path, or two that a test compares
    """
    case.need_determinism()
    out = []
    for name, call, extra, mask in _inputs(case):
        batch = case.sample(1, call=call)
        off, on = (case.run(batch, call=call, extra=extra, grad=g).detach() for g in (False, True))
        change = _compare(case, call, mask, off, on)
        if change > case.big:
            out.append(
                Verdict(
                    "error",
                    f"the output differs by {change:.2g} (relative) between no_grad and grad ({name})",
                    kind="path-mismatch",
                    measured=change,
                    allowed=case.tolerance,
                    example=name,
                    cause="a branch on torch.is_grad_enabled() or a fast path",
                    fix="make both paths compute the same, and compare them in a test",
                )
            )
    return out


def _compare(case: Case, call: Call, mask: Any, a: torch.Tensor, b: torch.Tensor) -> float:
    if mask is not None:
        rows = real_rows(call, mask[0], mask[1], a)
        a, b = a[rows], b[rows]
    return case.difference(a, b)


__all__ = ["grad_mode", "train_equals_eval", "without_dropout"]
