"""A dropout rate that is set has an effect in training."""

from __future__ import annotations

from regard.checks.case import Case, Verdict
from regard.checks.rule import rule


@rule("ATT502", kinds=("dropout-not-applied",))
def dropout_used(case: Case) -> Verdict | None:
    """With dropout > 0, two training calls with different seeds differ.

    What goes wrong: the nn.Dropout is made in the constructor and never called, or the fused path forgets the rate.
    Why it matters: a model without the regularisation that its configuration names.

    Bad:
        self.dropout = nn.Dropout(p)          # and forward never calls it
    Good:
        weights = self.dropout(weights)
    """
    case.need(case.dropout > 0.0, "no dropout rate above 0 was found")
    batch = case.sample()
    a, b = case.run(batch, train=True, seed=21), case.run(batch, train=True, seed=22)
    if case.difference(a, b) > case.tolerance:
        return None
    return Verdict(
        "warning", f"dropout {case.dropout:g} has no effect: two training calls with different seeds are equal", kind="dropout-not-applied", measured=0.0, allowed="a difference",
        example="the same input twice, train mode", cause="the dropout layer is never called", fix="apply it to the weights after the softmax",
    )  # fmt: skip
