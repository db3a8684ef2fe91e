"""A bias of positions goes with the distance of two places, not with their sum."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.checks.case import Case, Verdict
from regard.checks.positions import distance_spread, places
from regard.checks.rule import rule

LEAST = 5  # tokens: below, a table of any kind has few equal sums
SAME = 1e-7


@rule("ATT809", kinds=("relative-index-collision",))
def sums_of_places(case: Case) -> Verdict | None:
    """A bias that is equal wherever i - j is, or different everywhere, is right; one that is equal wherever i + j is, is not.

    Read on identical tokens. What goes wrong: the index of a relative bias adds the two places instead of subtracting them.
    Why it matters: it runs and trains; tokens at one distance share nothing, and ends of the sequence stand for near and far.

    Bad:
        index = place[:, None] + place[None, :]
    Good:
        index = place[:, None] - place[None, :] + length - 1
    """
    case.need_determinism()
    looked = False
    for p in places(case):
        t, s = p.scores.shape[-2:]
        if not p.added or t != s or t < LEAST or bool(torch.isnan(p.scores).any()):
            continue
        looked = True
        if distance_spread(p.scores) > 100 * SAME and _spread(p.scores) < SAME:
            return Verdict(
                "error", "the bias of two places is the same wherever their sum is, and differs where only their distance is the same",
                kind="relative-index-collision", measured=_spread(p.scores), allowed="equal for equal distances", where=p.site.where or None, example=f"{t} identical tokens",
                cause="places are added where they should be subtracted", fix="index = place[:, None] - place[None, :] + length - 1",
            )  # fmt: skip
    case.need(looked, "no bias of positions on all pairs was seen")
    return None


def _spread(scores: Tensor) -> float:
    """How far scores of an equal sum of places differ, relative to how far all do."""
    n = scores.shape[-1]
    known = float((scores - scores.mean((-2, -1), keepdim=True)).abs().max())
    lines = [torch.diagonal(scores.flip(-1), d, dim1=-2, dim2=-1) for d in range(-n + 2, n - 1)]
    return max(float((x - x.mean(-1, keepdim=True)).abs().max()) for x in lines) / max(known, 1e-30)
