"""Different queries attend differently."""

from __future__ import annotations

from regard.checks.case import Case, Verdict
from regard.checks.rule import rule
from regard.checks.sites import need_site


@rule("ATT405", kinds=("uniform-attention",))
def uniform_attention(case: Case) -> Verdict | None:
    """Scores depend on the query: the weights of two queries differ.

    What goes wrong: the scores are multiplied by zero, an option switches them off, the query is replaced by a constant
    or averaged over the sequence.
    Why it matters: attention is an expensive mean.

    Bad:
        weights = (q @ k.mT * (1 // math.sqrt(d))).softmax(-1)      # an integer division: 0
    Good:
        weights = (q @ k.mT * (1 / math.sqrt(d))).softmax(-1)
    """
    for site in need_site(case):
        weights = site.weights()
        if (
            weights is None
            or site.query is None
            or site.key is None
            or site.learned_queries
            or site.learned_keys
            or weights.shape[-2] < 2
            or weights.shape[-1] < 3
            or site.kind == "other"
        ):
            continue
        seen = site.visible()
        if seen is not None and not bool(seen.all()):
            continue
        weights = weights.double()
        flat = float((weights * weights.shape[-1] - 1).abs().max())
        if flat < 1e-9:
            singleton = float((weights - 1).abs().max()) < 1e-12
            if singleton:
                continue
            return Verdict(
                "error",
                "every key gets the same weight, whatever the query",
                kind="uniform-attention",
                measured=flat,
                allowed="weights that differ",
                where=site.where,
                cause="the scores are constant: multiplied by 0, or never computed from q and k",
                fix="look at what multiplies the scores",
            )
    return None
