"""Linear attention divides by the sum of its weights."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.checks.case import Case, Verdict
from regard.checks.influence import replace_token
from regard.checks.positions import identical
from regard.checks.quotients import Quotient, quotients
from regard.checks.rule import rule
from regard.checks.sites import attention_sites, watch

MOST_WAYS = 24  # replacements in which directions are counted: more than any usual number of heads twice


@rule("ATT406", kinds=("linear-unnormalised", "linear-normaliser-wrong"))
def linear_normaliser(case: Case) -> Verdict | None:
    """Where values are summed without a softmax, n identical tokens give the same output for every n.

    What goes wrong: phi(q) (phi(k)^T v) without the division by phi(q) sum(phi(k)); values summed up to each token and
    divided by the sum over all tokens, so that the future comes in through the denominator.
    Why it matters: outputs grow with the length of the sequence; a model trained at 512 tokens fails at 2,048.
    Right by design where a norm follows (retention) or where weights are meant to be sums (sigmoid attention): then
    declare row_sum="any".

    Bad:
        out = q @ (k.mT @ v)
    Good:
        out = q @ (k.mT @ v) / (q @ k.sum(-2).unsqueeze(-1) + eps)
    References: Katharopoulos et al. 2020.
    """
    if (verdict := _keeps_the_features(case)) is not None:
        return verdict
    map_ = len(case.call.sources[case.call.query].grid) == 2
    case.need((case.call.free_length or map_) and not case.call.is_cross, "one length only, or two streams")
    case.need(case.design.row_sum != "any", "the design says that weights need not sum to 1")
    case.need_determinism()
    if not map_ and (verdict := _counts_the_future(case)) is not None:
        return verdict
    seen = watch(case, case.sample()).seen
    case.need(
        not attention_sites(case) and any("linear attention" in u for u in seen.unknown),
        "no attention without a softmax was seen",
    )
    n = case.call.sources[case.call.query].tokens
    a, b, c = (_repeated(case, k) for k in (1, 2, 3))
    first, second = b - a, c - b
    size = max(float(a.abs().max()), 1e-12)
    if float(first.abs().max()) < case.big * size:
        return _affine(case)
    if float((second - first).abs().max()) < 1e-6 * float(first.abs().max()):
        return Verdict(
            "warning",
            f"the output grows in proportion to the number of tokens ({float(first.abs().max()) / size:.2g} more, relative, from {n} to {2 * n} identical tokens)",
            kind="linear-unnormalised",
            measured=float(first.abs().max()) / size,
            allowed=case.tolerance,
            example=f"{n}, {2 * n} and {3 * n} identical tokens",
            cause="no division by the sum of the weights",
            fix="divide by q . sum(k) + eps, or follow with a norm",
        )
    return Verdict(
        "question",
        f"the output of identical tokens depends on how many there are ({float(first.abs().max()) / size:.2g}, relative): is that meant?",
        kind="linear-normaliser-wrong",
        measured=float(first.abs().max()) / size,
        allowed=case.tolerance,
        example=f"{n} and {2 * n} identical tokens",
        cause="a normaliser that does not match the weights, or positions",
        fix="divide by q . sum(k) + eps",
    )


def _keeps_the_features(case: Case) -> Verdict | None:
    """q (k^T v) is divided by q times a vector that is the same for every token, feature by feature: no sum over the features."""
    for quotient in quotients(case, case.sample()):
        axis = _tokens_of_a_product(quotient)
        if axis is None:
            continue
        return Verdict(
            "error",
            "each feature of the output is divided by its own feature of the query, times a number of its own: that is no sum of weights",
            kind="linear-normaliser-wrong",
            measured=f"denominator {tuple(quotient.below.shape)}",
            allowed="one number for each query and head",
            example=f"numerator {tuple(quotient.above.shape)}",
            cause="the denominator keeps the feature axis",
            fix="divide by (q * k.sum(tokens)).sum(features, keepdim=True)",
        )
    return None


def _tokens_of_a_product(quotient: Quotient) -> int | None:
    """The axis along which denominator / query is constant, for a query that the numerator was made of."""
    below = quotient.below
    if below.shape != quotient.above.shape or below.ndim < 3 or below.shape[-1] < 3:
        return None
    for query in quotient.operands:
        if query.shape != below.shape:
            continue
        clear = query.abs() > 0.1 * query.abs().mean()
        if float(clear.double().mean()) < 0.4:  # too few left to compare: features that are mostly 0
            continue
        ratio = (below / query).masked_fill(~clear, torch.nan)
        wide = float((ratio - ratio.nanmean(-1, keepdim=True)).abs().nan_to_num(0.0).max())
        for axis in range(below.ndim - 1):
            if below.shape[axis] < 2 or not _varies(query, axis):
                continue
            away = (ratio - ratio.nanmean(axis, keepdim=True)).abs().nan_to_num(0.0)
            if float(away.max()) < 1e-3 * wide:
                return axis
    return None


def _varies(x: Tensor, axis: int) -> bool:
    return float(x.std(axis).mean()) > 1e-3 * float(x.abs().mean())


def _counts_the_future(case: Case) -> Verdict | None:
    """Prefix sums of values over the sum of all weights: of n identical tokens, output t is t / n of the way to the last.

    Two things must hold, and no positions or weights of another kind fulfil both: that way is straight, ends at the same place
    for every n, and is another for another token; and later tokens do no more to an output than scale its heads.
    """
    case.need(case.call.follows, "outputs do not stand for tokens")
    n = case.call.sources[case.call.query].tokens
    ways = [_way(case, number, count) for number, count in ((40, n), (40, 2 * n), (42, n))]
    if any(w is None for w in ways):
        return None
    short, long, other = (w for w in ways if w is not None)
    size = max(float(short.abs().max()), 1e-12)
    if float((short - long).abs().max()) > case.big * size or float((short - other).abs().max()) < case.big * size:
        return None
    row = n // 2
    later, earlier = (_directions(case, row, future) for future in (True, False))
    if not 0 < later <= earlier // 2:
        return None
    return Verdict(
        "error",
        f"values are summed up to each token and divided by the weights of all: of {n} identical tokens, output t is t / {n} of the way to the last, and later tokens scale it",
        kind="linear-normaliser-wrong",
        measured=1 / n,
        allowed="1 for every token",
        example=f"{n} and {2 * n} identical tokens",
        cause="the numerator is a prefix sum, and the denominator sums over the whole sequence",
        fix="divide by (q * k.cumsum(tokens)).sum(features)",
    )


def _way(case: Case, number: int, count: int) -> Tensor | None:
    """(F,) from the output with nothing summed to that with everything, when those of identical tokens lie on it in equal steps."""
    out = case.run(identical(case, number, tokens=count))[0]  # (count, F)
    if out.shape[0] != count:
        return None
    step = (out[-1] - out[0]) / (count - 1)
    line = out[0] + torch.arange(count, dtype=out.dtype)[:, None] * step
    size = max(float(out.abs().max()), 1e-12)
    straight = float((out - line).abs().max()) < 1e-6 * size
    return count * step if straight and float(step.abs().max()) * count > case.big * size else None


def _directions(case: Case, row: int, future: bool) -> int:
    """In how many directions an output moves when the tokens after it, or those up to it, are replaced in many ways."""
    batch = case.sample()
    base = case.run(batch)[0, row]
    changes = []
    for number in range(min(base.numel(), MOST_WAYS)):
        moved = {name: x.clone() for name, x in batch.items()}
        x = moved[case.call.query]
        for t in range(row + 1, x.shape[1]) if future else range(row + 1):
            replace_token(x, 0, t, number=100 * number + t)
        changes.append(case.run(moved)[0, row] - base)
    values = torch.linalg.svdvals(torch.stack(changes))
    return int((values > 1e-6 * max(float(values[0]), float(base.abs().max()))).sum())


def _repeated(case: Case, times: int) -> Tensor:
    """(F,) the last output of so many times the usual number of identical tokens; a map gets more columns."""
    source = case.call.sources[case.call.query]
    batch = identical(case, 40, tokens=times * source.tokens)
    grids = {case.call.query: (source.grid[0], times * source.grid[1])} if len(source.grid) == 2 else None
    return case.run(batch, grids=grids)[0, -1]


BENDS = r"\bnorm\w*\(|Norm\b|\bgate|silu|gelu|swish|\bglu\b|sigmoid|tanh|[cC]onv|\bpos_|position"


def _affine(case: Case) -> Verdict | None:
    """Weights that sum to 1 give an output of identical tokens that is an affine function of the token, whatever the features."""
    case.need(case.evidence.says(BENDS, where="source") is None, "something else bends the output")
    case.need(
        case.subject.is_module
        and not any(
            type(m).__name__.endswith(("Norm", "GELU", "SiLU", "Sigmoid", "Tanh"))
            for m in case.subject.pristine.modules()
        ),
        "a norm or an activation bends the output",
    )
    base = identical(case, 41)
    a, b, c = (case.run({n: x * k for n, x in base.items()})[0, -1] for k in (1.0, 2.0, 3.0))
    size = max(float(a.abs().max()), float(c.abs().max()), 1e-12)
    bend = float((c - 2 * b + a).abs().max()) / size
    if bend < 1e-3:
        return None
    return Verdict(
        "error",
        f"the output of identical tokens is no mean of their values: it bends by {bend:.2g} (relative) when the tokens are scaled by 1, 2 and 3",
        kind="linear-normaliser-wrong",
        measured=bend,
        allowed=1e-3,
        example="identical tokens x1, x2, x3",
        cause="the denominator keeps the feature axis, or uses other features than the numerator",
        fix="divide by (q * k.sum(tokens)).sum(features)",
    )
