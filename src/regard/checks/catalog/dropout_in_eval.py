"""Eval gives the same numbers twice."""

from __future__ import annotations

from regard.checks.case import Case, Verdict
from regard.checks.no_dropout import NoChosenDropout, NoDropout
from regard.checks.rule import rule
from regard.checks.sites import attention_sites


def _by_dropout(case: Case, without: type[NoDropout] = NoDropout) -> bool:
    """With every dropout call at rate 0, are two eval calls equal?"""
    batch = case.sample()
    with without():
        return case.difference(case.run(batch, seed=11), case.run(batch, seed=12)) <= case.tolerance


@rule("ATT501", kinds=("dropout-in-eval",))
def dropout_in_eval(case: Case) -> Verdict | None:
    """In eval mode two calls with the same input give the same output.

    What goes wrong: F.scaled_dot_product_attention(dropout_p=p) and F.dropout(x, p) drop whatever mode the module is in.
    Why it matters: a deployed model rolls dice.

    Bad:
        F.scaled_dot_product_attention(q, k, v, dropout_p=self.p)
    Good:
        F.scaled_dot_product_attention(q, k, v, dropout_p=self.p if self.training else 0.0)
    """
    batch = case.sample()
    a, b = case.run(batch, seed=11), case.run(batch, seed=12)
    change = case.difference(a, b)
    if change <= case.tolerance:
        return None
    kernel = any(s.dropout for s in attention_sites(case))
    if not kernel and not _by_dropout(case):
        return Verdict(
            "question",
            f"two eval calls differ by {change:.2g} with another seed: is the randomness meant?",
            kind=None,
            measured=change,
            allowed=0.0,
            cause="random numbers are drawn in eval",
            example="the same input twice",
        )
    if _by_dropout(case, NoChosenDropout):
        return Verdict(
            "question",
            f"two eval calls differ by {change:.2g}: dropout is alive in eval, where the code says training=True; is that meant?",
            kind="dropout-in-eval",
            measured=change,
            allowed=0.0,
            cause="training=True is written at the call",
            fix="training=self.training, where eval is to give one answer",
            example="the same input twice",
        )
    return Verdict(
        "error", f"two eval calls on the same input differ by {change:.2g} (relative): dropout is alive in eval", kind="dropout-in-eval", measured=change, allowed=0.0,
        example="the same input twice, eval mode", cause="the attention kernel is given dropout_p whatever the mode" if kernel else "F.dropout without training=self.training",
        fix="dropout_p=self.p if self.training else 0.0",
        diff="-    dropout_p=self.dropout_p\n+    dropout_p=self.dropout_p if self.training else 0.0" if kernel else None,
    )  # fmt: skip
