"""Queries ask and keys answer, not the other way round."""

from __future__ import annotations

import re

import torch

from regard.checks.case import Case, Verdict
from regard.checks.rule import rule
from regard.checks.sites import competes, row_sources, watch
from regard.intercept import Site

QUERY = (
    r"(^|[._])(q|wq|w_q|query|queries|to_q|q_proj|q_linear|fc_q|linear_q|lin_q|query_proj|proj_q|q_net|theta)([._]|$)"
)
KEY = r"(^|[._])(k|wk|w_k|key|keys|to_k|k_proj|k_linear|fc_k|linear_k|lin_k|key_proj|proj_k|k_net|phi)([._]|$)"
SUMS = 1e-3  # a row of weights sums to 1 but for this: some add a small constant first


@rule("ATT312", kinds=("weights-transposed", "softmax-axis-query"))
def weights_transposed(case: Case) -> Verdict | None:
    """The weights are contracted with the values over the axis of the keys.

    Which projection makes the rows and which makes the columns is followed back to the parameters' names.
    What goes wrong: weights are transposed before the product with the values, or an einsum sums over the query index.
    Why it matters: outputs are no averages; a token receives in proportion to how much it asks.

    Bad:
        y = weights.transpose(-2, -1) @ v
    Good:
        y = weights @ v
    """
    case.need(case.subject.is_module, "a function has no named projections")
    case.need_determinism()
    run = watch(case, case.sample(), grad=True)  # the graph leads from rows and columns to parameters
    looked = False
    for i, site in enumerate(run.sites):
        if site.query is None or site.key is None or site.kind != "softmax" or site.softmax_axis != -2:
            looked |= site.softmax_axis == -1
            continue
        looked = True
        if not turned_over(site) or site.learned_queries or _averages(site) or competes(case):
            continue
        rows, columns = (_names(run.module, site, name) for name in ("query", "key"))
        named = _only(rows, QUERY, KEY) and _only(columns, KEY, QUERY)
        backwards = _only(rows, KEY, QUERY) and _only(columns, QUERY, KEY)
        if (site.swapped or backwards) and _values_are_tokens(case, i):
            return _over_queries(site) if named else _transposed(site, rows, columns)
    case.need(looked, "no open softmax(q k^T) was seen")
    return None


def _transposed(site: Site, rows: list[str], columns: list[str]) -> Verdict:
    return Verdict(
        "error", "the weights are contracted over the query axis: rows come from the key projection, columns from the query projection",
        kind="weights-transposed", measured=f"rows from {(rows or ['?'])[0]}, columns from {(columns or ['?'])[0]}", allowed="the reverse",
        where=site.where or None, cause="the weights are transposed before the product with the values", fix="weights @ v",
    )  # fmt: skip


def _over_queries(site: Site) -> Verdict:
    """The product is k q^T by the names of the projections, and its last axis, over which the softmax ran, that of the queries."""
    return Verdict(
        "error", "the softmax runs over the queries: scores are k q^T, and their last axis is that of the queries", kind="softmax-axis-query",
        allowed="weights of one query sum to 1", where=site.where or None, cause="softmax over the last axis of k q^T", fix="softmax over the keys, or q k^T",
    )  # fmt: skip


def turned_over(site: Site) -> bool:
    """Can the map be one that was transposed? It has as many rows as columns: others fit no values then, and fail loudly."""
    return site.shape is not None and site.shape[-1] == site.shape[-2]


def _averages(site: Site) -> bool:
    """Do the weights of a row sum to 1 over the axis that meets the values? Candidates compete for keys, then average: slot attention."""
    used = site.weights_used
    return used is not None and float((used.detach().double().sum(-1) - 1).abs().max()) < SUMS


def _values_are_tokens(case: Case, number: int) -> bool:
    """Does each value come from one token? Weights times weights (an inverse, a chain of maps) read no values."""
    rows = row_sources(case)[number].get("value")
    return rows is not None and bool((rows.source >= 0).any())


def _names(module: torch.nn.Module, site, which: str) -> list[str]:
    tensor = site.sources.get(which, (getattr(site, which), None))[0]
    named = [(n, p) for n, p in module.named_parameters() if p.requires_grad]
    grads = torch.autograd.grad(
        tensor.sum() + tensor.square().sum(), [p for _, p in named], retain_graph=True, allow_unused=True
    )
    return [n for (n, _), g in zip(named, grads) if g is not None]


def _only(names: list[str], this: str, other: str) -> bool:
    return any(re.search(this, n) for n in names) and not any(re.search(other, n) for n in names)
