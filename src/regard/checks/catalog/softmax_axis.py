"""Weights sum to one over the keys they are contracted with."""

from __future__ import annotations

from regard.checks.case import Case, Verdict
from regard.checks.catalog.weights_transposed import turned_over
from regard.checks.rule import rule
from regard.checks.sites import competes, need_site, recorded
from regard.intercept import Site
from regard.intercept.site import Step

NAMES = {
    -2: ("softmax-axis-query", "the query axis"),
    -3: ("softmax-axis-head", "the head axis"),
    -4: ("softmax-axis-batch", "the batch axis"),
}


@rule("ATT402", kinds=("softmax-axis-query", "softmax-axis-head", "softmax-axis-batch", "softmax-axis-singleton"))
def softmax_axis(case: Case) -> list[Verdict]:
    """The softmax runs over the axis that the weights share with the values.

    What goes wrong: dim=1 or dim=0 where the last axis was meant, a softmax over an axis of size one after keepdim, a
    softmax without dim.
    Why it matters: outputs are sums, not means: their size grows with the length, and queries see each other.
    A softmax over the queries that is normalised again over the keys (slot attention, external attention) is right.

    Bad:
        weights = scores.softmax(dim=1)
    Good:
        weights = scores.softmax(dim=-1)
    """
    out = []
    for call in [case.call, *([case.cross] if case.cross else [])]:
        sites = need_site(case, call)
        for i, site in enumerate(sites):
            verdict = _judge(case, site, sites[i + 1 :])
            if verdict is not None and not out:
                out.append(verdict)
    return out


def _judge(case: Case, site: Site, later: list[Site]) -> Verdict | None:
    made = site.weights_made
    if site.kind not in ("softmax", "exp") or made is None:
        return None
    if _mixes_heads(site):
        return None
    if made.shape[-1] > 1 and float((made - 1).abs().max()) < 1e-12:
        return Verdict(
            "error",
            f"the softmax runs over an axis of size 1: all {made.shape[-1]} weights of a row are 1",
            kind="softmax-axis-singleton",
            measured=float(made.sum(-1).flatten()[0]),
            allowed=1.0,
            where=site.where,
            cause="the axis was kept with size 1 (keepdim, unsqueeze), or dim counts from the other side",
            fix="softmax(dim=-1) over the keys",
        )
    if (joint := _over_all_pairs(case, site)) is not None:
        return joint
    axis = site.softmax_axis
    if axis in (-1, None) or case.design.queries_compete or case.design.row_sum == "any":
        return None
    if any(s.op == "renormalise" or _is_softmax(s) for s in site.after):
        return None
    if axis == -2 and (made.shape[-2] == 1 or (site.swapped and turned_over(site) and not site.learned_queries)):
        return None  # a single query; or weights_transposed speaks of it
    kind, name = NAMES.get(axis, ("softmax-axis-query", f"axis {axis}"))
    batch = case.call.sources[case.call.query].batch
    if made.ndim + axis == 0 and made.shape[axis] % batch == 0 and made.ndim < 4 and kind != "softmax-axis-head":
        kind, name = (
            ("softmax-axis-batch", "the axis that holds the batch")
            if made.ndim == 2 or made.shape[axis] == batch
            else (kind, name)
        )
    dot = site.query is not None and site.key is not None
    chained = any(other.value is not None and site.output is not None and _same(other, site) for other in later)
    total = made.double().sum(-1)
    assigns = (
        site.learned_queries and axis == -2 and not chained
    )  # tokens are shared out among learned clusters, and summed
    rivals = axis == -2 and competes(case)
    asked = ": are tokens meant to be shared out among the learned rows?" if assigns else ""
    asked = ": are they meant to compete?" if rivals else asked
    return Verdict(
        "error" if not assigns and not rivals and (dot or chained or kind != "softmax-axis-query") else "question",
        f"the softmax runs over {name}: the weights of one query sum to {float(total.min()):.2f} .. {float(total.max()):.2f}, not 1{asked}", kind=kind,
        measured=f"{float(total.min()):.3f} .. {float(total.max()):.3f}", allowed=1.0, where=site.where, example=f"weights {tuple(made.shape)}", cause=f"softmax over {name}", fix="softmax(dim=-1) over the keys, or divide by the sum over the keys",
    )  # fmt: skip


def _mixes_heads(site: Site) -> bool:
    """Learned square tables on both sides of a softmax over neither: heads that read each other before it and after it."""
    if not (site.learned_keys and site.learned_values) or site.key is None or site.value is None:
        return False
    return site.key.shape[-2:] == site.value.shape[-2:] and site.key.shape[-1] == site.key.shape[-2]


def _is_softmax(step: Step) -> bool:
    """Is what the weights are multiplied with another softmax of the same scores, over another axis? Both together match pairs."""
    other = step.tensor if step.op == "mul" else None
    if other is None or other.ndim < 2 or min(other.shape[-2:]) < 2:
        return False
    return any(float((other.double().sum(axis) - 1).abs().max()) < 1e-5 for axis in (-1, -2))


def _over_all_pairs(case: Case, site: Site) -> Verdict | None:
    """One softmax over all pairs of a query and a key, whose weights are then cut into a row for each query."""
    made, value, call = site.weights_made, site.value, case.call
    if made is None or value is None or case.design.row_sum == "any" or site.after or not call.follows:
        return None
    queries = call.sources[call.query].tokens + call.skip
    if made.ndim != value.ndim or made.shape[:-2] != value.shape[:-2] or site.query is not None:
        return None
    if queries < 2 or value.shape[-2] < 2 or made.shape[-2:] != (1, queries * value.shape[-2]):
        return None
    total = made.double().unflatten(-1, (queries, -1)).sum(-1)
    return Verdict(
        "error", f"the softmax runs over queries and keys together: the weights of one query sum to {float(total.min()):.2f} .. {float(total.max()):.2f}, those of all {queries} to 1",
        kind="softmax-axis-query", measured=f"{float(total.min()):.3f} .. {float(total.max()):.3f}", allowed=1.0, where=site.where,
        example=f"weights {tuple(made.shape)}", cause="the scores are flattened before the softmax", fix="softmax(dim=-1) over the keys alone",
    )  # fmt: skip


def _same(later: Site, site: Site) -> bool:
    """What the later site reads as values is what this one made."""
    a, b = recorded(later.value), recorded(site.output)
    return a.numel() == b.numel() and abs(float(a.double().sum() - b.double().sum())) < 1e-9 * max(
        1.0, float(b.double().abs().sum())
    )
