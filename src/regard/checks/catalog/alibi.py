"""ALiBi: the bias falls with the distance, with the paper's slopes."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from regard.checks.case import Case, Verdict
from regard.checks.positions import places
from regard.checks.rule import rule


def paper_slopes(heads: int) -> Tensor:
    """Slopes of Press et al. 2022 for any number of heads: those of the power of two below, then every other of the next."""
    power = 2 ** math.floor(math.log2(heads))
    base = [2.0 ** (-8.0 * (i + 1) / power) for i in range(power)]
    more = [2.0 ** (-4.0 * (2 * i + 1) / power) for i in range(heads - power)]
    return torch.tensor(base + more, dtype=torch.float64)


def _line(scores: Tensor) -> Tensor | None:
    """(H,) slope of the score against the distance to the past; None unless it is a straight line in every row."""
    _h, t, s = scores.shape
    if t != s or t < 4:
        return None
    last = scores[:, -1] - scores[:, -1, -1:]
    distance = torch.arange(s - 1, -1, -1, dtype=scores.dtype)
    ok = ~torch.isnan(last).any(-1)
    if not bool(ok.all()):
        return None
    slope = last[:, 0] / distance[0]
    straight = (last - slope[:, None] * distance).abs().amax(-1) < 1e-6 * last.abs().amax(-1).clamp_min(1e-12)
    return slope if bool(straight.all()) and bool((slope.abs() > 1e-9).any()) else None


@rule("ATT803", kinds=("alibi-sign", "alibi-slopes"))
def alibi_bias(case: Case) -> Verdict | None:
    """A bias that is linear in the distance falls with it, and its slopes are those of the paper.

    Read on identical tokens. What goes wrong: the sign is flipped, so that the farthest token gets most weight; the
    power-of-two formula is used for other numbers of heads.
    Why it matters: with the wrong sign the model looks away from its neighbours; other slopes do not load checkpoints.
    Other slopes are a question: trained from scratch they are a choice.

    Bad:
        scores = scores + slopes * (query_place - key_place)
    Good:
        scores = scores - slopes * (query_place - key_place)
    References: Press et al. 2022, arXiv:2108.12409.
    """
    case.need_determinism()
    for p in places(case):
        slope = _line(p.scores) if p.added else None
        if slope is None:
            continue
        if bool((slope > 0).all()):
            return Verdict(
                "error",
                f"the bias grows with the distance ({float(slope[0]):+.3g} per token): far tokens get the most weight",
                kind="alibi-sign",
                measured=[round(float(x), 5) for x in slope],
                allowed="negative slopes",
                where=p.site.where or None,
                cause="the distance is added instead of subtracted, or query minus key is key minus query",
                fix="scores - slope * (query position - key position)",
                example=f"{p.scores.shape[-1]} identical tokens",
            )
        want = -paper_slopes(slope.numel())
        if slope.numel() > 1 and not torch.allclose(slope.sort().values, want.sort().values, rtol=1e-3):
            return Verdict(
                "question",
                f"slopes {[round(-float(x), 5) for x in slope]} are not the paper's {[round(-float(x), 5) for x in want]} for {slope.numel()} heads: trained from scratch?",
                kind="alibi-slopes",
                measured=[round(-float(x), 5) for x in slope],
                allowed=[round(-float(x), 5) for x in want],
                where=p.site.where or None,
                cause="the power-of-two formula for another number of heads",
                fix="regard.bias.alibi(num_heads)",
            )
        return None
    case.need(False, "no bias linear in the distance was seen")
    return None
