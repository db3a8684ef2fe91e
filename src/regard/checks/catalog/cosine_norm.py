"""Normalised scores are divided by the length of their own query and their own key."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.checks.case import Case, Verdict
from regard.checks.rule import rule
from regard.checks.sites import need_site, recorded
from regard.intercept import Site


@rule("ATT404", kinds=("qknorm-wrong",))
def cosine_norm(case: Case) -> Verdict | None:
    """Where scores are divided by norms, score (i, j) is a multiple of the cosine of query i and key j.

    What goes wrong: the norms of queries and keys are multiplied element by element instead of as an outer product, so
    row i is divided by the length of key i; the norm runs over the wrong axis; what is called cosine attention normalises
    keys and values, and not the queries.
    Why it matters: scores are no longer bounded by the temperature, which is what the norm is for.

    Bad:
        scores / (q.norm(dim=-1, keepdim=True) * k.norm(dim=-1, keepdim=True))
    Good:
        scores / (q.norm(dim=-1, keepdim=True) * k.norm(dim=-1, keepdim=True).mT)
    """
    looked = False
    along = _along_tokens(case) or _keys_forgotten(case) or _no_cosine(case)
    if along is not None:
        return along
    for site in need_site(case):
        if (
            site.query is None
            or site.key is None
            or site.logits is None
            or site.kind == "other"
            or site.query.shape[-2] != site.key.shape[-2]
        ):
            continue
        if (
            not any(s.op in ("shift", "div", "mul", "scale") for s in site.before)
            or site.logits.shape[-1] != site.key.shape[-2]
        ):
            continue
        looked = True
        if _explained(site, _plain(site)) or _explained(site, _cosine(site)):
            continue
        if _explained(site, _wrong(site)):
            return Verdict(
                "error",
                "scores of query i are divided by the length of key i, whatever key they belong to",
                kind="qknorm-wrong",
                measured="R2 of q.k / (|q_i| |k_i|) > 0.9999",
                allowed="q.k / (|q_i| |k_j|)",
                where=site.where or None,
                cause="the norms of queries and keys are multiplied element by element, not as an outer product",
                fix="divide by q.norm(dim=-1, keepdim=True) * k.norm(dim=-1, keepdim=True).mT",
                example=f"scores {tuple(site.logits.shape)}",
            )
    case.need(looked, "no scores divided by a norm were seen")
    return None


def _along_tokens(case: Case) -> Verdict | None:
    """Queries or keys of unit length along the tokens instead of the channels: F.normalize over the wrong axis."""
    for site in need_site(case):
        for name in ("query", "key"):
            x = getattr(site, name)
            if (
                x is None
                or x.ndim < 3
                or x.shape[-2] < 3
                or x.shape[-1] < 2
                or site.learned_keys
                or site.learned_queries
            ):
                continue
            rows = x.double().norm(dim=-1)
            for axis in [a for a in range(-2, -x.ndim - 1, -1) if x.shape[a] > 1]:
                columns = x.double().norm(dim=axis)
                if float(columns.std()) >= 1e-6 * float(columns.mean()) or float(rows.std()) <= 1e-3 * float(
                    rows.mean()
                ):
                    continue
                what = "the tokens" if axis == -2 else "the heads" if axis == -3 else "the batch"
                return Verdict(
                    "error",
                    f"the {name} vectors have unit length along {what}, not along the channels: one changes the scores of the others",
                    kind="qknorm-wrong",
                    measured=f"norm over {what} {float(columns.mean()):.3g}, spread 0",
                    allowed="unit length over channels",
                    where=site.where or None,
                    cause=f"normalize(dim={axis}) on (B, H, T, D); without dim it runs over axis 1",
                    fix="normalize(dim=-1)",
                    example=f"{name} {tuple(x.shape)}",
                )
    return None


def _keys_forgotten(case: Case) -> Verdict | None:
    """Queries are normalised and keys are not, although the author says both."""
    said = case.evidence.says(
        r"\bk_?norm\b|\bnorm_?k\b|\bkey_?norm|queries and keys are|q and k are|qk[-_ ]?norm", where="name doc source"
    )
    if said is None:
        return None
    for site in need_site(case):
        if (
            site.query is None
            or site.key is None
            or site.learned_keys
            or site.query.shape[-1] < 4
            or site.query.numel() < 64
        ):
            continue
        q, k = (getattr(site, n).double().norm(dim=-1) for n in ("query", "key"))
        spread = [float(t.std() / t.mean().clamp_min(1e-30)) for t in (q, k)]
        if min(spread) < 1e-3 and max(spread) > 0.05:
            which = "keys" if spread[1] > spread[0] else "queries"
            return Verdict(
                "error",
                f"the source speaks of {said!r}, but the {which} that meet are not normalised: their lengths vary by {max(spread):.0%}",
                kind="qknorm-wrong",
                measured=max(spread),
                allowed=1e-3,
                where=site.where or None,
                cause="one norm is applied twice, or its result is not used",
                fix="q = q_norm(q); k = k_norm(k)",
                example=f"{which} {tuple(site.key.shape)}",
            )
    return None


COSINE = r"(?<!not )(?<!no )(?<!instead of )(?<!than )(?<!unlike )(?<!without )cosine[-_ ]?(self[-_ ]?|cross[-_ ]?)?(attention|attn|similarit|logits|scores)|scaled[-_ ]cosine"


def _no_cosine(case: Case) -> Verdict | None:
    """The author says cosine; one side has unit length, and scores are the plain products with the other's whole length."""
    said, sites = case.evidence.says(COSINE), need_site(case)
    if said is None or ("similarit" in said.lower() and len(sites) > 1):  # a similarity of what comes out, perhaps
        return None
    for site in sites:
        lengths = _lengths(site)
        if lengths is None or site.logits is None or site.logits.shape[-1] != recorded(site.key).shape[-2]:
            continue
        spread = {n: float(t.std() / t.mean().clamp_min(1e-30)) for n, t in lengths.items()}
        free = "query" if spread["query"] > spread["key"] else "key"
        bound = "key" if free == "query" else "query"
        if spread[bound] > 1e-3 or spread[free] < 0.05 or not _explained(site, _plain(site)):
            continue
        also = " and the values" if spread.get("value", 1.0) < 1e-3 else ""
        return Verdict(
            "error",
            f"the author speaks of {said!r}, but only the {bound} vectors{also} have unit length: scores grow with the length of the {free}",
            kind="qknorm-wrong",
            measured=spread[free],
            allowed=1e-3,
            where=site.where or None,
            cause="another pair of tensors is normalised than queries and keys, or the result of one is not used",
            fix="q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)",
            example=f"{free} vectors {tuple(recorded(getattr(site, free)).shape)}: lengths vary by {spread[free]:.0%}",
        )
    return None


def _lengths(site: Site) -> dict[str, Tensor] | None:
    """Lengths of the query, key and value vectors of a site with computed queries and keys, wide enough to tell."""
    if site.query is None or site.key is None or site.learned_keys or site.learned_queries:
        return None
    if site.query.shape[-1] < 4 or site.query.numel() < 64 or site.kind == "other":
        return None
    found = {n: getattr(site, n) for n in ("query", "key", "value")}
    return {n: t.double().norm(dim=-1) for n, t in found.items() if t is not None}


def _plain(site: Site) -> Tensor:
    return recorded(site.raw_scores()).double()


def _norms(site: Site) -> tuple[Tensor, Tensor]:
    query, key = recorded(site.query), recorded(site.key)
    return query.double().norm(dim=-1, keepdim=True), key.double().norm(dim=-1, keepdim=True)


def _cosine(site: Site) -> Tensor:
    q, k = _norms(site)
    return _plain(site) / (q * k.transpose(-1, -2)).clamp_min(1e-12)


def _wrong(site: Site) -> Tensor:
    q, k = _norms(site)
    return _plain(site) / (q * k).clamp_min(1e-12) if q.shape == k.shape else torch.zeros_like(_plain(site))


def _explained(site: Site, model: Tensor) -> bool:
    """Do scores equal a factor per head times the model, at visible entries?"""
    scores = recorded(site.logits).detach().double()
    seen = recorded(site.visible()).expand(scores.shape)
    x, y = model[seen], scores[seen]
    if scores.ndim == 4 and bool(seen.all()):
        x, y = model.transpose(0, 1).flatten(1), scores.transpose(0, 1).flatten(1)
    else:
        x, y = x[None], y[None]
    slope = (x * y).sum(-1, keepdim=True) / (x * x).sum(-1, keepdim=True).clamp_min(1e-30)
    rest = (y - slope * x).square().sum(-1) / y.square().sum(-1).clamp_min(1e-30)
    return bool((rest < 1e-4).all())
