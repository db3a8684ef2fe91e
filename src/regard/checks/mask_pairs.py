"""Masks that hide the same tokens in different places of a model, and only hide them together."""

from __future__ import annotations

from dataclasses import replace

from regard.checks.case import Case
from regard.checks.infer_mask import call_for, try_use
from regard.checks.mask_use import MaskUse

PER_ITEM_KEYS = ("BS", "B11S", "B1S", "SB")


def pair_masks(case: Case) -> list[MaskUse]:
    """The masks, those that hide the same tokens in different places (encoder and cross-attention) given together.

    Two that leak alone and hide together are one statement of the caller's in two arguments; neither is at fault.
    """
    out = []
    for use in case.masks:
        alone = use.works or not use.changes
        call = call_for(case, use.parameter)
        for other in () if alone else case.masks:
            same = other is not use and other.source == use.source and call_for(case, other.parameter) is call
            if not same or other.works or not other.changes or other.shape not in PER_ITEM_KEYS:
                continue
            trial = try_use(case, call, replace(use, partners=(other,)), [])
            if trial is not None and trial.works:
                use = replace(trial.use, works=True, neutral=True)
                break
        out.append(use)
    return out
