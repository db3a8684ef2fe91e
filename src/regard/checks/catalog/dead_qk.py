"""At initialisation, queries and keys can learn."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.checks.case import Case, Verdict
from regard.checks.catalog.gradients import gradients
from regard.checks.redraw import SEEDS, redrawn
from regard.checks.rule import rule
from regard.checks.sites import watch
from regard.intercept import Site


@rule("ATT702", kinds=("dead-qk",))
def dead_queries_and_keys(case: Case) -> Verdict | None:
    """As initialised, queries and keys are not both zero.

    What goes wrong: both projections start at zero; the gradient of each is proportional to the other.
    Why it matters: attention stays uniform for ever.

    Bad:
        nn.init.zeros_(self.q.weight); nn.init.zeros_(self.k.weight)
    Good:
        nn.init.xavier_uniform_(self.q.weight); nn.init.xavier_uniform_(self.k.weight)
    """
    case.need(case.subject.is_module, "a function has no parameters")
    sites = watch(case, case.sample(), pristine=True).sites
    pairs = [(s, s.query, s.key) for s in sites if s.query is not None and s.key is not None]
    case.need(bool(pairs), "no queries and keys were seen inside")
    for site, query, key in pairs:
        if float(query.abs().max()) == 0.0 and float(key.abs().max()) == 0.0:
            dead = [n for n, g in gradients(case, pristine=True).items() if g is None or float(g.abs().max()) == 0.0]
            return Verdict(
                "error",
                "queries and keys are both zero at initialisation: neither gets a gradient, so attention stays uniform",
                kind="dead-qk",
                measured=f"no gradient for {', '.join(dead[:3])}",
                allowed="a gradient",
                where=site.where,
                cause="both projections are initialised to zero",
                fix="initialise at least one of them at random",
                example="as constructed",
            )
    return None


def _twin_sites(sites: list[Site]) -> tuple[Site, int] | None:
    """A site that was computed several times from equal q, k and v, and how often."""
    for site in sites:
        if site.query is None or site.key is None or site.value is None:
            continue
        same = [
            s
            for s in sites
            if s.where == site.where and all(_equal(getattr(s, n), getattr(site, n)) for n in ("query", "key", "value"))
        ]
        if len(same) > 1 and float((site.query - site.query[..., :1, :]).abs().max()) > 0:
            return site, len(same)
    return None


def _one_module(case: Case) -> bool:
    """Are they so with the usual weights (a shut gate makes two rounds alike), and with others (one may start as a copy of another)?"""
    weights = (None, redrawn(case, SEEDS[0]))
    return all(_twin_sites(watch(case, case.sample(), module=module).sites) is not None for module in weights)


def _equal(a: Tensor | None, b: Tensor | None) -> bool:
    return a is not None and b is not None and a.shape == b.shape and torch.equal(a, b)


@rule("ATT703", kinds=("heads-collapsed",))
def heads_differ(case: Case) -> Verdict | None:
    """As initialised, heads have different weights.

    What goes wrong: one head's projection is copied to all; heads that start equal get equal gradients and stay equal.
    Why it matters: eight heads do the work of one.

    Bad:
        w = torch.randn(1, d, hd).repeat(heads, 1, 1)
    Good:
        w = torch.randn(heads, d, hd)
    """
    case.need(case.subject.is_module, "a function has no parameters")
    sites = watch(case, case.sample(), pristine=True).sites
    maps = [(s, w.double()) for s in sites if (w := s.weights()) is not None and w.ndim == 4 and w.shape[1] > 1]
    twin = _twin_sites(sites)
    if twin is not None and _one_module(case):
        return Verdict(
            "error",
            f"{twin[1]} heads are one and the same: equal queries, keys and values in one call",
            kind="heads-collapsed",
            measured=twin[1],
            allowed=1,
            where=twin[0].where or None,
            cause="the heads are one module repeated in a list",
            fix="make every head anew: ModuleList(Head() for _ in range(h))",
            example="as constructed",
        )
    case.need(bool(maps), "no attention with a head axis was seen inside")
    for site, weights in maps:
        spread = float((weights - weights[:, :1]).abs().max())
        flat = float((weights - weights.mean(-1, keepdim=True)).abs().max())
        if flat < 1e-9 or site.value is None:
            continue
        value = site.value.double()
        same_values = (
            value.ndim == 4 and value.shape[1] == weights.shape[1] and float((value - value[:, :1]).abs().max()) < 1e-12
        )
        if spread < 1e-12 and same_values:
            return Verdict(
                "error",
                f"all {weights.shape[1]} heads have equal weights and equal values: they will stay equal",
                kind="heads-collapsed",
                measured=spread,
                allowed="a difference",
                where=site.where,
                cause="the heads' projections are copies of one",
                fix="initialise every head on its own",
                example="as constructed",
            )
    return None
