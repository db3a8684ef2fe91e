"""Dropout falls on the weights, not on the scores."""

from __future__ import annotations

from regard.checks.case import Case, Verdict
from regard.checks.influence import replace_token
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
    sites = watch(case, case.sample(), train=True).sites
    dropped = any(before or after for before, after in (s.dropout_steps for s in sites))
    case.need(case.dropout > 0.0 or dropped, "no dropout rate above 0 was found")
    case.need(bool(sites), "no attention (q k^T, softmax, values) was seen inside")
    for site in sites:
        before, _ = site.dropout_steps
        if before and site.kind in ("softmax", "exp"):
            ahead = _future_in_training(case)
            return Verdict(
                "error" if ahead > case.big else "warning",
                "dropout is applied to the scores before the softmax"
                + (
                    f": in training, outputs change by {ahead:.2g} (relative) with later tokens"
                    if ahead > case.big
                    else ""
                ),
                kind="dropout-wrong-place",
                measured=f"dropout before the softmax at {before[0].where}",
                allowed="after it",
                where=before[0].where or site.where,
                cause="dropout and softmax are in the wrong order",
                fix="weights = dropout(softmax(scores))",
            )
    return None


def _future_in_training(case: Case) -> float:
    """Of a module that is causal in eval: how far earlier outputs change with the last token, in train mode with one seed."""
    if not case.facts.get("causal"):
        return 0.0
    batch = case.sample()
    moved = {n: x.clone() for n, x in batch.items()}
    for item in range(moved[case.call.query].shape[0]):
        replace_token(moved[case.call.query], item, -1, number=item, size=3.0)
    a, b = (case.run(x, train=True)[:, :-1] for x in (batch, moved))
    return case.difference(a, b)
