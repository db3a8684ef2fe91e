"""Dropout falls on the weights, not on the scores."""

from __future__ import annotations

from regard.checks.case import Case, Verdict
from regard.checks.rule import rule
from regard.checks.sites import watch


@rule("ATT507", kinds=("dropout-wrong-place",))
def dropout_place(case: Case) -> Verdict | None:
    """No dropout stands between the scores and the softmax.

    What goes wrong: a dropped score becomes 0, which is an ordinary score, not an absent key.
    Why it matters: the weights change by chance instead of being thinned, and masked keys can come back.

    Bad:
        weights = self.dropout(scores).softmax(-1)
    Good:
        weights = self.dropout(scores.softmax(-1))
    """
    case.need(case.dropout > 0.0, "no dropout rate above 0 was found")
    sites = watch(case, case.sample(), train=True).sites
    case.need(bool(sites), "no attention (q k^T, softmax, values) was seen inside")
    for site in sites:
        before, _ = site.dropout_steps
        if before and site.kind in ("softmax", "exp"):
            return Verdict(
                "warning",
                "dropout is applied to the scores before the softmax",
                kind="dropout-wrong-place",
                measured=f"dropout before the softmax at {before[0].where}",
                allowed="after it",
                where=before[0].where or site.where,
                cause="dropout and softmax are in the wrong order",
                fix="weights = dropout(softmax(scores))",
            )
    return None
