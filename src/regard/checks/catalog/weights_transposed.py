"""Queries ask and keys answer, not the other way round."""

from __future__ import annotations

import re

import torch

from regard.checks.case import Case, Verdict
from regard.checks.rule import rule
from regard.checks.sites import row_sources, watch
from regard.intercept import Site

QUERY = (
    r"(^|[._])(q|wq|w_q|query|queries|to_q|q_proj|q_linear|fc_q|linear_q|lin_q|query_proj|proj_q|q_net|theta)([._]|$)"
)
KEY = r"(^|[._])(k|wk|w_k|key|keys|to_k|k_proj|k_linear|fc_k|linear_k|lin_k|key_proj|proj_k|k_net|phi)([._]|$)"


@rule("ATT312", kinds=("weights-transposed",))
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
        if not turned_over(site) or case.design.queries_compete or any(s.op == "renormalise" for s in site.after):
            continue  # queries that compete for keys (slots), or a softmax over the wrong axis
        rows, columns = ([] if site.swapped else _names(run.module, site, name) for name in ("query", "key"))
        if (site.swapped or (_only(rows, KEY, QUERY) and _only(columns, QUERY, KEY))) and _values_are_tokens(case, i):
            return Verdict(
                "error",
                "the weights are contracted over the query axis: rows come from the key projection, columns from the query projection",
                kind="weights-transposed",
                measured=f"rows from {(rows or ['?'])[0]}, columns from {(columns or ['?'])[0]}",
                allowed="the reverse",
                where=site.where or None,
                cause="the weights are transposed before the product with the values",
                fix="weights @ v",
            )
    case.need(looked, "no open softmax(q k^T) was seen")
    return None


def turned_over(site: Site) -> bool:
    """Can the map be one that was transposed? It has as many rows as columns, since it met as many values."""
    shape = site.shape
    return shape is not None and shape[-1] == shape[-2]


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
