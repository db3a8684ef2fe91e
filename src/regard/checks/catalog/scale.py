"""Scores are divided by the square root of the head width."""

from __future__ import annotations

import math

from regard.checks.call import Call
from regard.checks.case import Case, Verdict
from regard.checks.rule import rule
from regard.checks.scale_fit import TRUST, Fit, fits, name_of, widths_of
from regard.checks.sites import need_site

KINDS = ("scale-embed-dim", "scale-missing", "scale-dk-not-sqrt", "scale-inverted", "scale-twice", "scale-wrong-size")


@rule("ATT401", kinds=KINDS)
def scale(case: Case) -> list[Verdict]:
    """The factor between q . k and the scores is 1 / sqrt(head_dim), whatever the length.

    The factor is fitted on what the module computes; nothing is said unless it explains 99.9 % of the change.
    What goes wrong: the root of the model width instead of the head's, no scale, the scale twice, no root, multiplied
    instead of divided, or a root of the number of keys.
    Why it matters: attention is too flat or saturated; the model trains, worse.
    Other factors are right by design in T5 (1), mu-P (1/d), cosine attention and learned temperatures: without a
    declaration this is a question. `Design(scale=1.0)` answers it.

    Bad:
        scores = q @ k.mT * self.embed_dim ** -0.5
    Good:
        scores = q @ k.mT * self.head_dim ** -0.5
    References: Vaswani et al. 2017, section 3.2.1.
    """
    out: list[Verdict] = []
    for call in [case.call, *([case.cross] if case.cross else [])]:
        need_site(case, call)
        found = [f for f in fits(case, call) if f.r2 > TRUST]
        for fit in found:
            verdict = _judge(case, call, fit)
            if verdict is not None and verdict.kind not in {v.kind for v in out}:
                out.append(verdict)
        if out:
            break
    return out


def _judge(case: Case, call: Call, fit: Fit) -> Verdict | None:
    want = case.design.scale if case.design.scale is not None else (case.design.head_dim or fit.head_dim) ** -0.5
    if fit.keys == fit.head_dim and not fit.normalised and (grows := _with_length(case, call, fit)) is not None:
        return grows  # as many keys as channels: the right number by accident
    if (
        abs(fit.slope / want - 1) < 2e-3
        or (case.design.scale is None and abs(fit.slope * fit.head_dim**0.5 - 1) < 2e-3)  # the width that is contracted
        or fit.normalised
        or case.design.qk_norm
        or (fit.spread > 1e-3 and case.design.scale is None)
    ):
        return None
    grows = _with_length(case, call, fit)
    if grows is not None:
        return grows
    if abs(fit.slope) < 1e-9:
        return None  # uniform_attention speaks of that
    kind, words = name_of(fit.slope, fit, widths_of(case, fit))
    if kind == "scale-dk-not-sqrt" and fit.site.kind == "fused" and len(fit.site.scale_ops) > 1:
        kind, words = "scale-twice", f"{words}: q is scaled before a kernel that scales too"
    if case.design.scale is None and kind is None and fit.slope > 0 and _learned(fit):
        return None
    declared = (
        case.design.declared
        and case.design.attention not in ("linear", "pool", "channel")
        and (case.design.scale is not None or case.design.head_dim is not None)
    )
    clipped = fit.cap is not None and abs(fit.slope / fit.cap / want - 1) < 2e-3  # C * tanh(q . k / sqrt(d)): pointers
    declared = declared and not clipped
    return Verdict(
        "error" if declared else "question",
        f"scores are {fit.slope:.4g} x q . k = {words}; 1/sqrt(head_dim) would be {want:.4g}" + ("" if declared else ": is that meant?"),
        kind=kind or "scale-wrong-size", measured=round(fit.slope, 6), allowed=round(want, 6), where=fit.site.where or None,
        example=f"least squares over {fit.queries} x {fit.keys} scores, R2 {fit.r2:.6f}", cause=words, fix=f"scale by head_dim ** -0.5 (head_dim = {fit.head_dim}), or declare scale={fit.slope:.4g}",
    )  # fmt: skip


def _learned(fit: Fit) -> bool:
    """A parameter multiplies the scores."""
    return any(s.op == "mul" and s.tensor is not None for s in fit.site.before)


def _with_length(case: Case, call: Call, fit: Fit) -> Verdict | None:
    """Does the factor change with the number of keys?"""
    if not call.free_length:
        return None
    longer = {n: 2 * s.tokens for n, s in call.sources.items()}
    try:
        other = [f for f in fits(case, call, tokens=longer) if f.r2 > TRUST]
    except Exception:
        return None
    if not other or abs(other[0].slope / fit.slope - 1) < 1e-3:
        return None
    root = abs(fit.slope * math.sqrt(fit.keys) - 1) < 2e-3 and abs(other[0].slope * math.sqrt(other[0].keys) - 1) < 2e-3
    return Verdict(
        "error" if root else "question", f"the scale depends on the length: {fit.slope:.4g} for {fit.keys} keys, {other[0].slope:.4g} for {other[0].keys}" + (": 1/sqrt(keys)" if root else ": is that meant?"),
        kind="scale-wrong-size", measured=round(fit.slope, 6), allowed=round(fit.head_dim**-0.5, 6), where=fit.site.where or None, example=f"{fit.keys} and {other[0].keys} keys",
        cause="the temperature is taken from the sequence axis", fix="use head_dim ** -0.5",
    )  # fmt: skip
