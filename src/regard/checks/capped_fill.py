"""Optional arguments without a mask's name that fill scores before a tanh: -inf becomes an ordinary score again."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from regard.checks.case import Case, Verdict
from regard.checks.infer_mask import pattern
from regard.checks.mask_use import MaskUse
from regard.checks.sites import attention_sites, watch
from regard.intercept import Site

SHAPES = ("BS", "BTS", "B1S", "B11S")
WEIGHT = 1e-9  # hidden keys with less than this matter in no dtype


def capped_fills(case: Case) -> Iterator[Verdict]:
    """One verdict for each optional argument whose fill is the lowest of all scores, goes through tanh, and leaves weight."""
    if case.stochastic or not any(s.op == "tanh" for site in attention_sites(case) for s in site.before):
        return
    known = {m.parameter for m in case.masks} | set(case.call.arguments)
    for name in case.signature.unknown:
        if name in known or case.subject.signature().parameters[name].default is not None:
            continue
        found = _capped(case, name)
        if found is not None:
            site, score, weight = found
            yield Verdict(
                "error",
                f"keys that {name} takes out keep the score {score:.3g} and a weight of {weight:.2g}: it fills scores that go through tanh afterwards",
                kind="softcap-after-mask",
                measured=weight,
                allowed=0.0,
                where=site.where or None,
                example=f"{name} as a boolean, the same for all items",
                cause="tanh turns -inf into -1, which the cap makes an ordinary score",
                fix="cap the scores first, then mask",
            )


def _capped(case: Case, name: str) -> tuple[Site, float, float] | None:
    batch = case.sample()
    for shape in SHAPES:
        use = MaskUse(name, case.call.keys, shape, "bool", "drop")
        keep = pattern(*batch[use.source].shape[:2])
        keep = keep[:1].expand_as(keep).contiguous()  # one pattern: the axis of the items may be any
        try:
            extra = use.arguments(keep, batch[case.call.query].shape[1], case.subject.dtype)
            sites = watch(case, batch, extra=extra).sites
        except Exception:  # not of this shape
            continue
        return next((f for s in sites if (f := _filled_then_capped(s, keep[0])) is not None), None)
    return None


def _filled_then_capped(site: Site, keep: Tensor) -> tuple[Site, float, float] | None:
    """(site, the score, the most weight) of keys that got one score, the lowest, before a tanh."""
    names = [s.op for s in site.before]
    fill = next((i for i, op in enumerate(names) if op in ("fill", "where")), len(names))
    scores, weights = site.scores(), site.weights()
    if "tanh" not in names[fill:] or scores is None or weights is None or scores.shape[-1] != keep.numel():
        return None
    for hidden in (~keep, keep):
        score = float(scores[..., hidden].max())
        alike = score - float(scores[..., hidden].min()) < 1e-9 * max(abs(score), 1.0)
        weight = float(weights[..., hidden].max())
        if alike and score < float(scores[..., ~hidden].min()) and weight > WEIGHT:
            return site, score, weight
    return None
