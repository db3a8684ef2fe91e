"""A causal module does not see the future."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.checks.case import Case, Verdict
from regard.checks.causality import causal_intent, one_ahead, ones_are_added
from regard.checks.influence import influence, replace_token
from regard.checks.masks import call_for, keep_pattern, masked
from regard.checks.rule import rule
from regard.checks.sites import attention_sites, causal_matrix


@rule(
    "ATT201",
    kinds=(
        "causal-off-by-one",
        "causal-flipped",
        "causal-missing",
        "future-leak-nonattention",
        "double-softmax",
        "softcap-after-mask",
        "causal-strict",
        "mask-added-as-01",
    ),
)
def future_leak(case: Case) -> Verdict | None:
    """No output of a causal module depends on a later token.

    What goes wrong: the mask's diagonal is off by one or its triangle flipped, the mask is missing on one path, a second
    softmax or a normalisation over the time axis brings the future back in.
    Why it matters: training loss looks wonderful and generation is worthless.

    Bad:
        mask = torch.ones(T, T).triu(diagonal=2).bool()     # hides from t + 2 on
    Good:
        mask = torch.ones(T, T).triu(diagonal=1).bool()
    """
    case.need(case.call.follows and not case.call.is_cross, "outputs do not stand for the tokens of one sequence")
    case.need(len(case.call.sources[case.call.query].grid) == 1, "tokens have no order in time")
    case.need_determinism()
    found = influence(case)
    case.need(found.square and found.sees.shape[0] > 3, "too few tokens")
    if found.causal:
        return _under_a_mask(case)
    if not bool(found.sees.triu(1).any()):
        return None  # nothing is seen ahead, and nothing behind
    return _judge(case, found.sees, found.change)


def _under_a_mask(case: Case) -> Verdict | None:
    """Is what is causal without a mask so with one that hides something? A mask that hides nothing is all_keep_mask's."""
    for use in case.masks:
        call = call_for(case, use.parameter)
        if not use.works or not call.follows or use.source != call.query or call.is_cross:
            continue
        batch = case.sample(1, call=call)
        tokens = batch[use.source]
        keep = keep_pattern(use, batch)
        every = masked(case, call, use, batch, torch.ones_like(keep))
        if case.difference(every, case.run(batch, call=call)) > case.tolerance:
            continue
        before = masked(case, call, use, batch, keep)
        last = [int(row.nonzero().max()) for row in keep]
        moved = {n: x.clone() for n, x in batch.items()}
        for item, s in enumerate(last):
            replace_token(moved[use.source], item, s, number=item * tokens.shape[1] + s, size=3.0)
        after = masked(case, call, use, moved, keep)
        if before.shape[1] != keep.shape[1]:
            continue
        earlier = keep & (torch.arange(keep.shape[1]) < torch.tensor(last)[:, None])
        change = case.difference(after[earlier], before[earlier])
        if change > case.big:
            return Verdict(
                "error", f"without {use.parameter} no output depends on a later token; with one that hides keys, outputs do",
                kind="causal-missing", measured=change, allowed=case.tolerance, example=f"{keep.shape[1]} tokens, some hidden, the last real one replaced",
                cause="when a mask is given, the causal mask is not applied", fix="combine the two masks with &",
            )  # fmt: skip
    return None


def _judge(case: Case, sees: Tensor, change: Tensor) -> Verdict | None:
    n = sees.shape[0]
    ahead = torch.ones(n, n, dtype=torch.bool).triu(1)
    first_off = torch.diagonal(sees, 1)
    worst = float((change * ahead).max())
    t, s = (
        int(i)
        for i in [
            *(change * ahead).argmax().unsqueeze(0).div(n, rounding_mode="floor").tolist(),
            int((change * ahead).argmax()) % n,
        ]
    )
    common = {
        "measured": worst, "allowed": case.tolerance,
        "example": f"length {n}: replacing token {s} changes output {t} by {worst:.2g}",
    }  # fmt: skip
    lower = sees.tril()
    stacked = _one_ahead_in_each(case)
    if stacked:
        return Verdict(
            "error", f"in each of {stacked} attention layers a query sees exactly one token of the future: the causal mask is off by one", kind="causal-off-by-one",
            cause=CAUSES["causal-off-by-one"], fix="triu(diagonal=1) hides the future; tril(diagonal=0) keeps past and self", **common,
        )  # fmt: skip
    if (
        bool(first_off.all())
        and not _weights_causal(case)
        and not bool(sees.triu(2).any())
        and bool(lower.tril(-2).any())
    ):
        return Verdict(
            "error", "each output sees exactly one token of the future: the causal mask is off by one", kind="causal-off-by-one",
            cause="the hidden triangle begins at diagonal 2 instead of 1 (or the kept one ends at 1 instead of 0)", fix="triu(diagonal=1) hides the future; tril(diagonal=0) keeps past and self", **common,
        )  # fmt: skip
    if not bool(sees.tril(-1)[:-1].any()) and bool(sees.triu(1)[:-1].any(-1).all()):
        return Verdict(
            "error", "outputs see the future and never the past: the causal triangle is flipped", kind="causal-flipped",
            cause="triu where tril was meant, or a keep mask used as a hide mask", fix="keep = torch.ones(T, T, dtype=torch.bool).tril()", **common,
        )  # fmt: skip
    if ones_are_added(case):
        return Verdict(
            "error", f"a triangle of zeros and ones is added to the scores, which hides nothing: output {t} depends on the later token {s}", kind="mask-added-as-01",
            cause="a mask of booleans is given as numbers: a float mask is added", fix="give a mask of dtype bool, or -inf where the future is", **common,
        )  # fmt: skip
    said, kind = causal_intent(case, sees)
    if said is not None and kind != "question" and _two_sided_band(sees):
        kind = "window-symmetric"
    if said is None:
        return None
    return Verdict(
        "error" if kind != "question" else "question",
        f"it is meant to be causal ({said}), but output {t} depends on the later token {s}",
        kind=kind if kind != "question" else "causal-missing", cause=CAUSES.get(kind), fix=FIXES.get(kind), **common,
    )  # fmt: skip


def _one_ahead_in_each(case: Case) -> int:
    """How many layers there are, if there are several and each hides all but one token of the future."""
    sites = attention_sites(case)
    alike = len(sites) > 1 and all(one_ahead(s) for s in sites)
    return len(sites) if alike else 0


def _two_sided_band(sees: Tensor) -> bool:
    """Each row sees as far ahead as back, and not everything."""
    n = sees.shape[0]
    reach = [d for d in range(1, n) if bool(sees.diagonal(d).any())]
    back = [d for d in range(1, n) if bool(sees.diagonal(-d).any())]
    return bool(reach) and reach == back and max(reach) < n - 1


def _weights_causal(case: Case) -> bool:
    return any(causal_matrix(s.weights()) for s in attention_sites(case))


CAUSES = {
    "future-leak-nonattention": "the attention weights are causal; a mean, norm, standard deviation or convolution over the time axis is not",
    "window-symmetric": "the window reaches as far ahead as back",
    "double-softmax": "a second softmax gives hidden keys weight again",
    "softcap-after-mask": "the scores are squeezed after the mask, which turns -inf into an ordinary score",
    "causal-strict": "the first token may see nothing, and a row that is hidden everywhere becomes uniform",
    "causal-missing": "the mask is built and not applied, or only on one path",
    "causal-off-by-one": "the hidden triangle begins at diagonal 2 instead of 1 (or the kept one ends at 1 instead of 0)",
}
FIXES = {
    "future-leak-nonattention": "normalise over channels, or cumulatively over time",
    "window-symmetric": "keep = (gap >= 0) & (gap < window)",
    "double-softmax": "mask again before the second softmax, or drop it",
    "softcap-after-mask": "cap the scores first, then mask",
    "causal-strict": "triu(diagonal=1) hides the future and keeps the token itself",
    "causal-missing": "pass the mask (or is_causal=True) on every path",
    "causal-off-by-one": "triu(diagonal=1) hides the future; tril(diagonal=0) keeps past and self",
}
