"""A mask constant is far enough from real scores, and from the subnormal range."""

from __future__ import annotations

import torch

from regard.checks.case import Case, Verdict
from regard.checks.masks import keep_pattern, mask_uses
from regard.checks.rule import rule
from regard.checks.sites import attention_sites, watch
from regard.intercept import Site

LOW, HIGH = -110.0, -80.0


@rule("ATT407")
def mask_constant(case: Case) -> Verdict | None:
    """No mask constant lies between -110 and -80.

    exp of such a number is subnormal in float32, and a softmax with subnormal weights takes 7 to 32 times as long on a CPU
    (measured: -95 makes it 27 to 32 times slower forward and backward, -100 7 to 9 times).
    What goes wrong: -100 is copied from Swin.
    Why it matters: time only; outputs change by less than rounding when -inf takes its place.

    Bad:
        mask = mask.masked_fill(mask != 0, -100.0)
    Good:
        mask = mask.masked_fill(mask != 0, float("-inf"))
    """
    sites = list(attention_sites(case))
    if case.masks and not case.stochastic:
        for use, call in mask_uses(case):
            batch = case.sample(1, call=call)
            keep = keep_pattern(use, batch)
            if use.dtype != "additive":
                sites += watch(
                    case,
                    batch,
                    call=call,
                    extra={use.parameter: use.encode(keep, batch[call.query].shape[1], case.subject.dtype)},
                ).sites
    case.need(bool(sites), "no attention was seen inside")
    for site in sites:
        found = _constant(site)
        if found is not None:
            return Verdict(
                "question",
                f"hidden scores are set to {found:g}: their weights are subnormal, which makes a CPU softmax 7 to 32 times slower; is -inf possible?",
                kind=None,
                measured=found,
                allowed="below -110, or -inf",
                where=site.where or None,
                cause="a mask constant whose exp is subnormal in float32",
                fix='float("-inf") (with no row fully hidden), or -1e4',
            )
    return None


def _constant(site: Site) -> float | None:
    for step in site.mask:
        value = step.value
        if isinstance(value, torch.Tensor) and value.numel() == 1:
            value = float(value)
        if isinstance(value, (int, float)) and LOW < value < HIGH:
            return float(value)
        if step.op in ("add", "sub") and step.tensor is not None and step.tensor.is_floating_point():
            values = step.tensor.unique()
            if values.numel() == 2 and float(values.max()) == 0.0 and LOW < float(values.min()) < HIGH:
                return float(values.min())
    return None
