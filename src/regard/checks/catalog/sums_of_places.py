"""A bias of positions goes with the distance of two places: not with their sum, and not with the query's place alone."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.checks.case import Case, Verdict
from regard.checks.positions import Places, distance_spread, first_item, identical, places
from regard.checks.rule import rule
from regard.checks.sites import watch

LEAST = 5  # tokens: below, a table of any kind has few equal sums
SAME = 1e-7


@rule("ATT809", kinds=("relative-index-collision",))
def sums_of_places(case: Case) -> Verdict | None:
    """A bias that is equal wherever i - j is, or different everywhere, is right; one that is equal wherever i + j is, or for all keys, is not.

    Read on identical tokens. What goes wrong: the index of a relative bias adds the two places instead of subtracting them, or
    the place of the key is left out: what is added to all keys alike, a softmax removes.
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
        if p.added and t > 2 and s > 2 and _for_all_keys(p.scores) and _is_added(case, p):
            return Verdict(
                "error", "a number is added to the scores that goes with the place of the query and is the same for all its keys: the softmax removes it",
                kind="relative-index-collision", measured="equal for all keys", allowed="another for another key", where=p.site.where or None, example=f"{s} identical tokens",
                cause="the place of the key is left out, or lies along the other axis", fix="add slope * (place[None, :] - place[:, None])",
            )  # fmt: skip
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


def _for_all_keys(scores: Tensor) -> bool:
    """(H, T, S), NaN where hidden: is each row flat, and do rows differ?"""
    known = ~torch.isnan(scores)
    high, low = scores.nan_to_num(-torch.inf).amax(-1), torch.where(known, scores, torch.inf).amin(-1)
    if not bool(known.any(-1).all()) or not bool((known.sum(-1) > 1).any()):
        return False
    size = max(float(high.abs().max()), 1e-12)
    return float((high - low).max()) < SAME * size and float((high - high[:, :1]).abs().max()) > 1e3 * SAME * size


def _is_added(case: Case, p: Places) -> bool:
    """Is the change from row to row the same for other tokens? A factor that goes with the place is not: longer rows may be sharpened."""
    for site in watch(case, identical(case, 31)).sites:
        other = site.scores()
        if site.where == p.site.where and other is not None and first_item(other).shape == p.scores.shape:
            a, b = p.scores[..., 0], first_item(other)[..., 0]
            return float(((a - a[:, :1]) - (b - b[:, :1])).abs().max()) < SAME * max(float(a.abs().max()), 1e-12)
    return False


def _spread(scores: Tensor) -> float:
    """How far scores of an equal sum of places differ, relative to how far all do."""
    n = scores.shape[-1]
    known = float((scores - scores.mean((-2, -1), keepdim=True)).abs().max())
    lines = [torch.diagonal(scores.flip(-1), d, dim1=-2, dim2=-1) for d in range(-n + 2, n - 1)]
    return max(float((x - x.mean(-1, keepdim=True)).abs().max()) for x in lines) / max(known, 1e-30)
