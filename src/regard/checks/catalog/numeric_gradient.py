"""The gradient is the derivative."""

from __future__ import annotations

import torch

from regard.checks.case import Case, Verdict
from regard.checks.rule import rule

STEP = 1e-5
ALLOWED = 1e-3
DESIGN = r"straight[- _]?through|\bste\b|gumbel|stop[_ -]?grad|vector[- ]?quant|lsh|hash"


@rule("ATT706", kinds=("gradient-cut",))
def numeric_gradient(case: Case) -> Verdict | None:
    """The derivative along a random direction of the inputs, by autograd and by differences, is the same.

    What goes wrong: detach, .data or no_grad somewhere on the way; an own backward that is wrong.
    Why it matters: part of the model gets no gradient, or a wrong one.
    A stop-gradient may be meant (straight-through, hashing): then this is a question to say yes to.

    Bad:
        weights = scores.softmax(-1).data
    Good:
        weights = scores.softmax(-1)
    """
    case.need(case.subject.dtype == torch.float64, "it does not run in float64")
    case.need_determinism()
    batch = case.sample(9)
    case.need(all(x.is_floating_point() for x in batch.values()), "inputs are ids")
    case.need(
        case.evidence.says(DESIGN, where="name doc source") is None,
        "the source speaks of a gradient that is stopped on purpose",
    )
    generator = torch.Generator().manual_seed(77)
    along = {n: torch.randn(x.shape, generator=generator, dtype=x.dtype) for n, x in batch.items()}
    leaves = {n: x.clone().requires_grad_() for n, x in batch.items()}
    out = case.run(leaves, grad=True)
    case.need(out.requires_grad, "no gradient reaches the inputs")
    weight = torch.randn(out.shape, generator=generator, dtype=out.dtype)
    grads = torch.autograd.grad((out * weight).sum(), list(leaves.values()), allow_unused=True)
    analytic = sum(float((g * along[n]).sum()) for n, g in zip(leaves, grads) if g is not None)
    estimates = [_slope(case, batch, along, weight, h) for h in (STEP, STEP / 10)]
    if abs(estimates[0] - estimates[1]) > 1e-4 * max(abs(estimates[0]), 1e-9):
        case.need(False, "the function is not smooth there")
    gap = abs(analytic - estimates[1]) / max(abs(estimates[1]), 1e-9)
    if gap <= ALLOWED:
        return None
    return Verdict(
        "question",
        f"autograd says {analytic:.5g}, differences say {estimates[1]:.5g} along a random direction of the inputs: is a gradient stopped on purpose?",
        kind="gradient-cut",
        measured=gap,
        allowed=ALLOWED,
        example="a random direction",
        cause="detach(), .data, no_grad() or an own backward on the way",
        fix="remove it where training is meant",
    )


def _slope(case: Case, batch, along, weight, h: float) -> float:
    up, down = ({n: x + s * h * along[n] for n, x in batch.items()} for s in (1, -1))
    return float(((case.run(up) - case.run(down)) * weight).sum()) / (2 * h)
