"""Queries and keys are both turned by their places."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.checks.case import Case, Verdict
from regard.checks.positions import SAME, first_item, identical, varies
from regard.checks.rule import rule
from regard.checks.sites import need_site, watch
from regard.intercept import Site

LEAST = 4  # tokens: fewer places prove no rotation


@rule("ATT808", kinds=("rope-wrong-axis",))
def rotation_of_both(case: Case) -> Verdict | None:
    """Where queries are turned by their places, keys are turned too, and the other way round.

    Read on identical tokens: pairs of channels keep their length from place to place and change their angle.
    What goes wrong: the rotation is applied to queries and values, or its result for the keys is dropped.
    Why it matters: scores then depend on one place alone and not on the distance; for every query all places look alike.

    Bad:
        q, v = rotate(q), rotate(v)
    Good:
        q, k = rotate(q), rotate(k)
    References: Su et al. 2021, section 3.2.
    """
    need_site(case)
    case.need(not case.call.is_cross, "queries and keys are different streams")
    case.need_determinism()
    looked = False
    for a, b in zip(*(watch(case, identical(case, number)).sites for number in (30, 31))):
        q, q2, k, k2 = (_of(site, name) for name in ("query", "key") for site in (a, b))
        if q is None or q2 is None or k is None or k2 is None or a.learned_keys or a.learned_queries:
            continue
        if q.shape != q2.shape or k.shape != k2.shape or q.shape[-2] != k.shape[-2] or q.shape[-2] < LEAST:
            continue
        looked = True
        for turned, still, names in (((q, q2), (k, k2), ("queries", "keys")), ((k, k2), (q, q2), ("keys", "queries"))):
            if all(_rotates(t) for t in turned) and not any(varies(t) for t in still) and _depends(*turned):
                return _verdict(a, names, q.shape[-2])
    case.need(looked, "queries and keys are not known, or are of different places")
    return None


def _of(site: Site, name: str) -> Tensor | None:
    tensor = getattr(site, name)
    return None if tensor is None or tensor.ndim < 2 else first_item(tensor)


def _rotates(x: Tensor) -> bool:
    """(H, T, D): do the channels that move along the tokens do so in pairs of constant length, in halves or as neighbours?"""
    if not varies(x):
        return False
    size = float(x.abs().max())
    moves = torch.nonzero(((x - x[:, :1]).abs() > SAME * size).any(1).any(0)).flatten()
    low, high = int(moves[0]), int(moves[-1]) + 1
    low, high = low - low % 2, high + high % 2
    part = x[..., low:high]
    if part.shape[-1] % 2 or part.shape[-1] < 2:
        return False
    half = part.unflatten(-1, (2, -1)).square().sum(-2)
    neighbours = part.unflatten(-1, (-1, 2)).square().sum(-1)
    return any(float((s - s[:, :1]).abs().max()) < SAME * size * size for s in (half, neighbours))


def _depends(a: Tensor, b: Tensor) -> bool:
    """Is the change along the tokens another for another token? A table that is added would be the same."""
    first, second = a - a[:, :1], b - b[:, :1]
    return float((first - second).abs().max()) > SAME * max(float(first.abs().max()), 1e-30)


def _verdict(site: Site, names: tuple[str, str], tokens: int) -> Verdict:
    turned, still = names
    return Verdict(
        "error", f"{turned} of identical tokens are turned from place to place, and {still} are the same everywhere: scores depend on the place of the {turned} alone, not on the distance",
        kind="rope-wrong-axis", measured=f"{still} turned by 0", allowed=f"{still} turned as the {turned} are", where=site.where or None, example=f"{tokens} identical tokens",
        cause=f"the rotation of the {still} is missing, or its result is not used", fix="q, k = rotate(q), rotate(k)",
    )  # fmt: skip
