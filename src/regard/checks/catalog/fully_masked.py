"""An item without a visible key gives finite numbers, forward and backward."""

from __future__ import annotations

import re

import torch
from torch import Tensor, nn

from regard.checks.call import Call
from regard.checks.case import Case, Verdict
from regard.checks.mask_use import MaskUse
from regard.checks.masks import mask_uses, masked
from regard.checks.rule import rule
from regard.checks.sites import watch

NEVER = r"\b(no|not|never|without|unlike|nor|instead of)\b"
IN_FRONT = (
    rf"({NEVER}[^.\n]{{0,24}}?)?(left[- ]?padd\w*"
    r"|\bpad(ded|ding|s)?\b[^.;:\n]{0,24}\b((on|at|to|from) the left|(in|at the|on the) front)\b"
    r"|\b(fills?|padd\w*)\b[^.;:\n]{0,16}\b(the front|the left|in front)\b)"
)


@rule("ATT601", kinds=("fully-masked-nan", "finite-min-overflow"))
def fully_masked_row(case: Case) -> list[Verdict]:
    """An item whose keys are all hidden gives finite output.

    What goes wrong: a softmax over a row of -inf is 0 / 0.
    Why it matters: one empty item turns the loss of the whole batch, and then every weight, into NaN.

    Bad:
        weights = scores.masked_fill(~keep, float("-inf")).softmax(-1)
    Good:
        weights = weights.masked_fill(~keep.any(-1, keepdim=True), 0.0)      # after a softmax with at least one finite score
    """
    out = []
    for use, call in mask_uses(case, per_item=True):
        keep, batch = _one_empty(case, call, use)
        for train in (False, True):
            got = masked(case, call, use, batch, keep, train=train)
            if not bool(torch.isfinite(got[0]).all()):
                if case.subject.dtype == torch.float64 and bool(
                    torch.isfinite(masked(case, call, use, batch, keep, train=train, dtype=torch.float32)[0]).all()
                ):
                    out.append(
                        Verdict(
                            "question",
                            f"when {use.parameter} hides every key of an item, the output is NaN in float64 only: a finite minimum of float64 is cast to float32",
                            kind="finite-min-overflow",
                            measured="NaN in float64",
                            allowed="finite",
                            example="item 0 fully hidden, float64",
                            cause="softmax(dtype=float32) of torch.finfo(float64).min",
                            fix="torch.finfo(torch.float32).min, or the dtype of the scores",
                        )
                    )
                    break
                if _weights_stay_finite(case, call, use, keep, batch):
                    out.append(
                        Verdict(
                            "question",
                            f"when {use.parameter} hides every token of an item, the output is NaN, and the weights are not: is an empty item possible?",
                            kind="fully-masked-nan",
                            measured="NaN",
                            allowed="finite",
                            example="item 0 fully hidden",
                            cause="a mean over no tokens is 0 / 0",
                            fix="divide by the count clamped to 1",
                        )
                    )
                    break
                what, why = "the output is NaN", "the softmax of a row that is -inf everywhere is 0 / 0"
                plain = _verdict(case, use, what, "fully-masked-nan", why, "train" if train else "eval")
                out.append(_left_padded(case, call, use) or plain)
                break
    return out


def _left_padded(case: Case, call: Call, use: MaskUse) -> Verdict | None:
    """Where the author says that padding stands in front: is an item with two such tokens NaN at its real ones?

    Under a causal mask the first queries then see nothing, and the next layer reads what they gave.
    """
    said = case.evidence.says(IN_FRONT)
    if (
        said is None
        or re.match(NEVER, said, re.IGNORECASE)
        or call.is_cross
        or not call.follows
        or use.shape not in ("BS", "B11S", "B1S", "BS1")
    ):
        return None
    keep, batch = _one_empty(case, call, use)
    keep[0, 2:] = True
    for train in (False, True):
        got = masked(case, call, use, batch, keep, train=train)
        if got.shape[1] != keep.shape[1] or bool(torch.isfinite(got[0, 2:]).all()):
            return None
    return Verdict(
        "error", f"an item whose first two tokens are hidden by {use.parameter} is NaN at its real tokens, and padding stands in front ({said!r})",
        kind="fully-masked-nan", measured="NaN", allowed="finite", example="item 0, two tokens of padding in front",
        cause="a hidden query that sees no key is NaN, and so is every key made of it: 0 * NaN is NaN",
        fix="let padded queries see themselves, or fill with torch.finfo(dtype).min",
    )  # fmt: skip


def _weights_stay_finite(case: Case, call: Call, use: MaskUse, keep: Tensor, batch: dict[str, Tensor]) -> bool:
    """Are weights seen inside, none of them NaN? Then the attention is not where the NaN comes from."""
    extra = use.arguments(keep, batch[call.query].shape[1], case.subject.dtype)
    made = [s.weights_made for s in watch(case, batch, call=call, extra=extra).sites]
    return bool(made) and all(w is not None and bool(torch.isfinite(w).all()) for w in made)


@rule("ATT602", kinds=("fully-masked-nan-backward",))
def fully_masked_gradient(case: Case) -> list[Verdict]:
    """An item whose keys are all hidden gives finite gradients.

    What goes wrong: NaN is replaced after the softmax (nan_to_num, where); the output is finite and the gradient is not.
    Why it matters: the first step with an empty item destroys the weights.

    Bad:
        weights = (scores + additive_minus_inf).softmax(-1).nan_to_num(0.0)
    Good:
        scores = scores.masked_fill(~(keep | empty), float("-inf"))          # no row is -inf everywhere
    """
    out = []
    for use, call in mask_uses(case, per_item=True):
        keep, batch = _one_empty(case, call, use)
        if not all(x.is_floating_point() for x in batch.values()):
            continue
        bad = _not_finite(case, call, use, keep, batch, case.subject.dtype)
        if bad and case.subject.dtype == torch.float64 and not _not_finite(case, call, use, keep, batch, torch.float32):
            out.append(
                Verdict(
                    "question",
                    f"when {use.parameter} hides every key of an item, the gradient of {', '.join(bad[:3])} is NaN in float64 only: a finite minimum of float64 is cast to float32",
                    kind="fully-masked-nan-backward",
                    measured="NaN in float64",
                    allowed="finite",
                    example="item 0 fully hidden, float64",
                    cause="softmax(dtype=float32) of torch.finfo(float64).min",
                    fix="torch.finfo(torch.float32).min, or the dtype of the scores",
                )
            )
            continue
        if bad:
            out.append(
                _verdict(
                    case,
                    use,
                    f"the output is finite, the gradient of {', '.join(bad[:3])} is NaN",
                    "fully-masked-nan-backward",
                    "NaN is replaced after the softmax, which its backward still passes through",
                    "eval, with gradients",
                )
            )
    return out


def _not_finite(
    case: Case, call: Call, use: MaskUse, keep: Tensor, batch: dict[str, Tensor], dtype: torch.dtype
) -> list[str]:
    """Names of parameters and inputs whose gradient is NaN; none where the output is not finite (the forward rule speaks of it)."""
    module = case.subject.instance(fresh=True, train=False, dtype=dtype)
    leaves = {n: x.clone().requires_grad_() for n, x in batch.items()}
    got = masked(case, call, use, leaves, keep, grad=True, module=module, dtype=dtype)
    if not bool(torch.isfinite(got).all()) or not got.requires_grad:
        return []
    (got[1:] if got.shape[0] > 1 else got).square().sum().backward()
    bad = [n for n, p in _parameters(module) if p.grad is not None and not bool(torch.isfinite(p.grad).all())]
    return bad + [n for n, x in leaves.items() if x.grad is not None and not bool(torch.isfinite(x.grad).all())]


def _parameters(module: nn.Module) -> list[tuple[str, Tensor]]:
    return list(module.named_parameters()) if isinstance(module, nn.Module) else []


def _one_empty(case: Case, call: Call, use: MaskUse) -> tuple[Tensor, dict[str, Tensor]]:
    batch = case.sample(1, call=call)
    keep = torch.ones(batch[use.source].shape[:2], dtype=torch.bool)
    keep[0] = False
    return keep, batch


def _verdict(case: Case, use: MaskUse, what: str, kind: str, cause: str, mode: str) -> Verdict:
    inner = (
        [
            type(m).__name__
            for m in case.subject.pristine.modules()
            if isinstance(m, (nn.MultiheadAttention, nn.TransformerEncoderLayer))
        ]
        if case.subject.is_module
        else []
    )
    own = not inner
    promised = case.evidence.promises(use.parameter)
    level = (
        "error" if own and use.changes and (use.works or kind != "fully-masked-nan") and not promised else "question"
    )
    if use.shape == "lengths" and level == "error":  # an item of no tokens: torch's packing refuses it
        level, what = "question", f"{what}: is an item of length 0 possible"
    note = (
        ""
        if own
        else f" (inside torch's {inner[0]}, whose paths differ here: NaN with need_weights or without grad, 0 otherwise)"
    )
    return Verdict(
        level,
        f"when {use.parameter} hides every key of an item, {what}{note}"
        + (f" (its text says {promised!r})" if promised else ""),
        kind=kind,
        measured="NaN",
        allowed="finite",
        example=f"item 0 fully hidden, {mode}",
        cause=cause,
        fix="leave one score finite in such rows and zero their weights after the softmax",
    )
