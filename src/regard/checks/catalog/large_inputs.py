"""Large inputs give finite outputs."""

from __future__ import annotations

import torch

from regard.checks.case import Batch, Case, Verdict
from regard.checks.rule import rule
from regard.checks.sites import watch

SIZE = 300.0
SEEDS = 12
LARGEST_EXPONENT = 88.7  # of e, in float32
HALVINGS = 8


@rule("ATT604", kinds=("logit-overflow",))
def large_inputs(case: Case) -> Verdict | None:
    """Inputs 300 times the usual size give finite output in float32.

    What goes wrong: exp without the row maximum subtracted, tanh written as a ratio of exponentials, squares summed
    in half precision.
    Why it matters: one outlier feature turns the run into NaN.
    It is an error where the module itself proves that an answer exists: in float64 the same input gives one, and in float32
    the exponentials of scores that are finite do not.

    Bad:
        weights = scores.exp() / scores.exp().sum(-1, keepdim=True)
    Good:
        weights = scores.softmax(-1)
    """
    case.need(all(x.is_floating_point() for x in case.sample().values()), "inputs are ids")
    batch = {n: x * SIZE for n, x in case.sample(3).items()}
    out = case.run(batch, dtype=torch.float32)
    usual = case.run(case.sample(3), dtype=torch.float32)
    if bool(torch.isfinite(out).all()) or not bool(torch.isfinite(usual).all()):
        return None
    top = _overflowing_scores(case)
    return Verdict(
        "warning" if top is None else "error",
        f"inputs of size {SIZE:g} give NaN or inf in float32"
        + ("" if top is None else f": exp of a score of {top:.0f}, where float64 still gives an answer"),
        kind="logit-overflow",
        measured="not finite",
        allowed="finite",
        example=f"normal inputs x {SIZE:g}",
        cause="exp of scores without their maximum subtracted, or a ratio of exponentials",
        fix="torch.softmax, torch.tanh, logsumexp",
    )


def _overflowing_scores(case: Case) -> float | None:
    """The largest score of weights made by exp and a sum, where float32 breaks at it and float64 gives an ordinary answer."""
    sample, top = case.sample(3), None
    if case.subject.dtype != torch.float64:
        return None
    for halving in range(HALVINGS):
        batch: Batch = {n: x * SIZE / 2**halving for n, x in sample.items()}
        if bool(torch.isfinite(case.run(batch, dtype=torch.float32)).all()):
            break
        exact = case.run(batch, dtype=torch.float64)
        if not bool(torch.isfinite(exact).all()) or float(exact.abs().max()) > 1e6:
            continue
        for site in watch(case.in_float32(), batch).sites:
            scores, made = site.scores(), site.weights()
            if site.kind != "exp" or scores is None or made is None or not bool(torch.isfinite(scores).all()):
                continue
            if float(scores.max()) > LARGEST_EXPONENT and not bool(torch.isfinite(made).all()):
                top = float(scores.max())
    return top


@rule("ATT605", kinds=("linear-normaliser-zero", "causal-strict"))
def finite_output(case: Case) -> Verdict | None:
    """Twelve random inputs give finite outputs.

    What goes wrong: a normaliser of linear attention that reaches zero (features that can all be zero, no epsilon), a
    mask that hides a token from itself so that the first row has no key, a norm of a zero vector.
    Why it matters: it is rare enough to pass tests and frequent enough to end a training run.

    Bad:
        out = num / (q * k.sum(1)).sum(-1)              # relu features: the sum can be 0
    Good:
        out = num / ((q * k.sum(1)).sum(-1) + 1e-6)
    """
    for number in range(SEEDS):
        batch = case.sample(100 + number)
        out = case.run(batch)
        if bool((torch.isfinite(out) | _log_of_zero(out)).all()):
            continue
        item = int((~torch.isfinite(out).flatten(1).all(-1)).nonzero()[0])
        rows = (~torch.isfinite(out[item]).all(-1)).nonzero().flatten().tolist()
        first = rows == [0] and case.call.follows
        return Verdict(
            "error" if all(x.is_floating_point() for x in batch.values()) or number < 3 else "question", f"a plain random input gives NaN or inf{' in the first row of every item' if first else f' in rows {rows[:6]}'}", kind="causal-strict" if first else "linear-normaliser-zero",
            measured=f"{len(rows)} rows of item {item}", allowed="finite", example=f"sample {number} of {SEEDS}",
            cause="the causal mask hides a token from itself: row 0 has no key" if first else "a normaliser or a norm reaches zero",
            fix="triu(diagonal=1) hides the future and keeps self" if first else "add an epsilon to the denominator",
        )  # fmt: skip
    return None


def _log_of_zero(out: torch.Tensor) -> torch.Tensor:
    """Where a row or a column is the logarithm of a distribution: -inf there is a choice that is ruled out, not a fault."""
    sums = [(out.exp().sum(axis, keepdim=True) - 1).abs() < 1e-4 for axis in (-1, -2)]
    return (sums[0] | sums[1]) & out.isneginf()
