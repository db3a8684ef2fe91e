"""Options that only return more, or only run faster, leave the output as it is."""

from __future__ import annotations

from typing import Any

import torch

from regard.checks.call import Call
from regard.checks.case import Case, Verdict
from regard.checks.infer import main_tensor
from regard.checks.influence import influence
from regard.checks.masks import call_for, keep_pattern, real_rows
from regard.checks.roles import call_role
from regard.checks.rule import rule
from regard.checks.signatures import flags_of


@rule("ATT505", kinds=("path-mismatch", "causal-missing"))
def option_paths(case: Case) -> list[Verdict]:
    """need_weights, output_attentions, use_cache, flash and the like do not change the main output.

    What goes wrong: the path that returns weights forgets the causal mask, the padding mask, the scale or the dropout.
    Why it matters: looking at a model changes the model; a fused kernel and its fallback are two models.

    Bad:
        if need_weights: w = (q @ k.mT * s).softmax(-1); return w @ v, w      # no causal mask here
    Good:
        the same masks on both paths
    """
    case.need_determinism()
    options = _options(case)
    case.need(bool(options), "it has no option that should leave the output alone")
    batch, base = case.base
    out = []
    ran = 0
    for name, value in options:
        try:
            other, call = _run(case, batch, {name: value})
        except Exception as error:
            case.notes.append(f"{name}={value!r} was not exercised: {type(error).__name__}: {str(error)[:80]}")
            continue
        ran += 1
        change = case.difference(other, base)
        if change > case.big:
            lost = case.facts.get("causal") and not influence(case, call=call).causal
            out.append(Verdict(
                "error", f"{name}={value!r} changes the output by {change:.2g} (relative)" + (": the causal mask is lost on that path" if lost else ""),
                kind="path-mismatch", measured=change, allowed=case.tolerance, example=f"the same input with {name}={value!r}", cause="the two paths do not apply the same mask, scale or dropout",
                fix="apply the same masks on both paths, and compare them in a test",
            ))  # fmt: skip
        out += _with_masks(case, name, value) if change <= case.big else []
    case.need(ran > 0, "no option could be switched")
    return out


def _with_masks(case: Case, name: str, value: Any) -> list[Verdict]:
    """The same under each mask that works."""
    out: list[Verdict] = []
    for use in case.masks:
        if not use.works or use.parameter == name:
            continue
        call = call_for(case, use.parameter)
        batch = case.sample(1, call=call)
        keep = keep_pattern(use, batch)
        extra = {use.parameter: use.encode(keep, batch[call.query].shape[1], case.subject.dtype)}
        try:
            with_option, _ = _run(case, batch, {**extra, name: value}, call)
        except Exception as error:
            case.notes.append(
                f"{name}={value!r} with {use.parameter} was not exercised: {type(error).__name__}: {str(error)[:80]}"
            )
            continue
        plain = case.run(batch, call=call, extra=extra)
        rows = real_rows(call, use, keep, plain)
        change = case.difference(with_option[rows], plain[rows])
        if change > case.big:
            out.append(
                Verdict(
                    "error",
                    f"with {use.parameter}, {name}={value!r} changes the output by {change:.2g} (relative)",
                    kind="path-mismatch",
                    measured=change,
                    allowed=case.tolerance,
                    example=f"two keys hidden, {name}={value!r}",
                    cause=f"{use.parameter} is not applied on that path",
                    fix="apply the same masks on both paths, and compare them in a test",
                )
            )
    return out


def _options(case: Case) -> list[tuple[str, Any]]:
    declared = [
        (n, v)
        for n, values in (case.design.options or {}).items()
        for v in values
        if v != case.signature.options.get(n)
    ]
    roles = ("return_option", "path_option", "cache_option")
    found = [(n, not d) for n, d in case.signature.options.items() if call_role(n) in roles and n not in dict(declared)]
    given = {n for n, _ in declared + found}
    flags = [n for n in flags_of(case.subject.forward) if call_role(n) in roles and n not in given]
    return declared + found + [(n, value) for n in flags for value in (True, False)]


def _run(
    case: Case, batch: dict[str, torch.Tensor], extra: dict[str, Any], call: Call | None = None
) -> tuple[torch.Tensor, Call]:
    """The main output of the other path, which may lie elsewhere in what is returned."""
    call = call or case.call
    raw = case.raw(batch, extra=extra, call=call)
    found = main_tensor(raw, call.sources[call.query], call.sources[call.keys])
    if found is not None:
        call = call.but(output=found[0], output_layout=found[1], follows=found[2])
    call = call.but(fixed={**call.fixed, **extra})
    return call.main_output(raw), call
