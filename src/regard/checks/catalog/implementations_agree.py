"""The implementations of attention that a model offers compute the same."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from regard.checks.call import Call
from regard.checks.case import BIG, TOLERANCE, Batch, Case, Verdict
from regard.checks.implementations import Implementation, implementations, kernels, paddings, using
from regard.checks.infer_mask import call_for, masked, real_rows
from regard.checks.mask_use import MaskUse
from regard.checks.rule import rule
from regard.checks.subject import describe_error

DTYPES = (torch.float64, torch.float32)
Way = tuple[str, Call, Batch, MaskUse | None, torch.Tensor | None]


@rule("ATT508", kinds=("path-mismatch", "mask-ignored"))
def implementations_agree(case: Case) -> list[Verdict]:
    """Eager code and fused kernel give the same output at every real token, without padding and with it on either side.

    Tried where a model has `set_attn_implementation` or a configuration with `_attn_implementation` (eager and sdpa), and
    where its parts have a switch called flash, sdpa or fused. In float64 where it runs, and in float32.
    What goes wrong: one of the two drops the padding mask, the causal mask, the scale, a bias or a cap on the scores.
    Why it matters: the implementation is chosen by what is installed. The same weights then are two models.

    Bad:
        if self.flash: return F.scaled_dot_product_attention(q, k, v)         # and the mask?
    Good:
        if self.flash: return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    References: transformers, tests of eager against sdpa with left and right padding.
    """
    case.need_determinism()
    pairs = implementations(case.subject.pristine)
    case.need(bool(pairs), "it offers one implementation of its attention")
    out, ran, reason = [], 0, ""
    for first, second in pairs:
        try:
            differ = kernels(case, using(case, first), case.sample()) != kernels(
                case, using(case, second), case.sample()
            )
            found = _compare(case, first, second)
        except Exception as error:
            reason = f"{first.name} and {second.name} do not both run: {describe_error(error)}"
            continue
        if found is None and not differ:
            reason = f"{first.name} and {second.name} ran the same kernels"
            continue
        ran += 1
        out += [found] if found is not None else []
    case.need(ran > 0, reason)
    return out


def _compare(case: Case, first: Implementation, second: Implementation) -> Verdict | None:
    for dtype in (d for d in DTYPES if d == case.subject.dtype or d == torch.float32):
        modules = [using(case, i, dtype) for i in (first, second)]
        for way in _ways(case):
            a, b = (_run(case, way, module, dtype) for module in modules)
            change = case.difference(a, b)
            if change == float("inf") and dtype == torch.float64:
                continue  # a finite minimum of float64 is none in float32, which softmax may be computed in; asked elsewhere
            if change > BIG[dtype]:
                name, _call, batch, use, _keep = way
                return Verdict(
                    "error",
                    f"{first.name} and {second.name} differ by {change:.2g} (relative) at real tokens {name}",
                    kind="path-mismatch" if use is None else "mask-ignored",
                    measured=change,
                    allowed=TOLERANCE[dtype],
                    example=f"{name}, {str(dtype).removeprefix('torch.')}, length {next(iter(batch.values())).shape[1]}",
                    cause="one of the two does not apply the same mask, scale, bias or cap",
                    fix="hand both the same arguments, and compare them in a test with padding on both sides",
                )
    return None


def _ways(case: Case) -> Iterator[Way]:
    """The calls on which both are compared."""
    yield "without a mask", case.call, case.sample(), None, None
    for use in case.masks:
        if not use.works or use.shape not in ("BS", "B11S", "B1S"):
            continue
        call = call_for(case, use.parameter)
        batch = case.sample(1, call=call)
        for side, keep in paddings(*batch[use.source].shape[:2]):
            yield f"with padding {side} under {use.parameter}", call, batch, use, keep


def _run(case: Case, way: Way, module: torch.nn.Module, dtype: torch.dtype) -> torch.Tensor:
    _name, call, batch, use, keep = way
    if use is None or keep is None:
        return case.run(batch, call=call, module=module, dtype=dtype)
    out = masked(case, call, use, batch, keep, module=module, dtype=dtype)
    return out[real_rows(call, use, keep, out)]
