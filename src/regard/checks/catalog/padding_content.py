"""What stands at hidden positions has no effect."""

from __future__ import annotations

from regard.checks.capped_fill import capped_fills
from regard.checks.case import Case, Verdict
from regard.checks.evidence import cast_to_float
from regard.checks.mask_cause import example_of, mask_cause
from regard.checks.mask_use import MaskUse
from regard.checks.masks import leak, mask_uses
from regard.checks.rule import rule

KINDS = (
    "mask-inverted", "mask-added-as-01", "mask-after-softmax", "mask-multiplied", "mask-query-axis", "mask-fill-weak", "softcap-after-mask",
    "mask-batch-head-order", "mask-shifted", "padding-leak-nonattention", "double-softmax", "mask-dtype",
)  # fmt: skip
HUGE = 1000.0
LACKS = "the output has an axis more than the input: is it called with one too few?"


@rule("ATT101", kinds=KINDS)
def padding_content(case: Case) -> list[Verdict]:
    """Replacing the content of hidden keys leaves every real output as it is.

    Tried at the usual size and at 5 and 1000 times that size. Rows of hidden queries are not compared.
    What goes wrong: the polarity is inverted, the 0/1 mask is added, the fill value is too small, the mask lies on the
    query axis or belongs to another item, the softcap comes after the mask, or another layer mixes tokens.
    Why it matters: a sentence is read differently according to what pads it.

    Bad:
        scores = scores + mask                          # 0 and 1 are added
    Good:
        scores = scores.masked_fill(~keep, float("-inf"))
    References: ONNX Attention conformance tests (poisoned values at masked positions).
    """
    out = list(capped_fills(case))
    if out and not case.masks:
        return out
    for use, call in mask_uses(case):
        sizes = {size: leak(case, call, use, size)[0] for size in (1.0, 5.0)}
        worst = max(sizes.values())
        example = example_of(use, case.sample(1, call=call))
        if not use.changes:
            continue  # hiding_matters speaks of masks that do nothing
        if worst > case.big:
            kind, cause, fix = mask_cause(case, call, use)
            said = f" ({use.said})" if use.said else ""
            edges = use.said.startswith("graphs:") and kind == "padding-leak-nonattention"  # they may also shape a bias
            asked = ": is it meant to be seen without an edge?" if edges else f": {LACKS}" if call.stretched else ""
            out.append(
                Verdict(
                    "question" if asked else "error",
                    f"content hidden by {use.parameter}{said} changes real outputs by {worst:.2g} (relative){asked}",
                    kind=kind,
                    measured=worst,
                    allowed=case.tolerance,
                    example=example,
                    cause=cause,
                    fix=fix,
                )
            )
            continue
        if (
            use.works
            and use.dtype == "additive"
            and case.evidence.dtype(use.parameter) != "additive"  # else the author answers
            and use.shape == "BS"
            and cast_to_float(case.evidence.source, use.parameter)
        ):
            out.append(_added_as_it_is(use))
        far = leak(case, call, use, HUGE)[0] if use.dtype != "additive" else 0.0
        if far > case.big:
            out.append(_overcome(use, far, case.tolerance, example))
    return out


def _added_as_it_is(use: MaskUse) -> Verdict:
    return Verdict(
        "question",
        f"{use.parameter}, one number per token, is cast to floating point and added to the scores: a 0/1 mask would hide nothing; is it given as 0 and -inf?",
        kind="mask-added-as-01", measured="0/1 mask: hidden keys keep their weight", allowed="hidden keys get none", example="1 for tokens, 0 for padding",
        cause="the mask is added as it is", fix="scores.masked_fill(mask == 0, float('-inf')), or (1 - mask) * torch.finfo(dtype).min",
    )  # fmt: skip


def _overcome(use: MaskUse, far: float, allowed: float, example: str) -> Verdict:
    return Verdict(
        "question",
        f"content of size {HUGE:g} hidden by {use.parameter} changes real outputs by {far:.2g}: how large can your padding be?",
        kind="mask-fill-weak", measured=far, allowed=allowed, example=example,
        cause="a finite fill value that large scores overcome", fix="fill with float('-inf') or torch.finfo(dtype).min",
    )  # fmt: skip
