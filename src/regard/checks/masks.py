"""What the mask rules share: running with a mask, which rows count, and replacing what is hidden."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from regard.checks.call import Call
from regard.checks.case import Batch, Case
from regard.checks.infer_mask import call_for, masked, pattern, real_rows
from regard.checks.influence import replace_token
from regard.checks.mask_use import ALIKE, MaskUse

PER_ITEM = {"BS", "B11S", "B1S", "BTS", "B1TS", "BS1", "HTS", "BHTS", "SB", "PTS", "lengths"}


def mask_uses(case: Case, *, per_item: bool = False) -> Iterator[tuple[MaskUse, Call]]:
    """Every mask with the call that it belongs to; raises NotExercised when there is none."""
    case.need(bool(case.signature.masks or case.signature.lengths or case.masks), "it takes no mask")
    case.need(bool(case.masks), "no mask argument could be filled in a way that runs")
    case.need_determinism()
    for use in case.masks:
        if not per_item or use.shape in PER_ITEM:
            yield use, call_for(case, use.parameter)


def keep_pattern(use: MaskUse, batch: Batch, *, last: bool = False) -> Tensor:
    """(B, S): inner keys hidden, or only the last ones (`last`, and always for lengths)."""
    items, keys = batch[use.source].shape[:2]
    if last or use.shape == "lengths":
        hide = torch.arange(items).remainder(2).neg().add(2).clamp(max=keys - 2)  # 2, 1, 2, ...
        return torch.arange(keys)[None] < (keys - hide)[:, None]
    keep = pattern(items, keys)
    return keep[:1].expand_as(keep).contiguous() if use.shape in ALIKE else keep


def replaced(batch: Batch, use: MaskUse, keep: Tensor, size: float, *, number: int = 0) -> Batch:
    """The same batch with other content at hidden positions."""
    moved = {n: x.clone() for n, x in batch.items()}
    for b, s in (~keep).nonzero().tolist():
        replace_token(moved[use.source], b, s, number=number + b * 50 + s, size=size)
    return moved


def leak(case: Case, call: Call, use: MaskUse, size: float = 1.0, *, train: bool = False) -> tuple[float, float]:
    """(largest relative change at rows that count, largest over hidden rows too) when hidden content is replaced."""
    batch = case.sample(1, call=call)
    keep = keep_pattern(use, batch)
    before = masked(case, call, use, batch, keep, train=train)
    after = masked(case, call, use, replaced(batch, use, keep, size), keep, train=train)
    rows = real_rows(call, use, keep, before)
    return case.difference(after[rows], before[rows]), case.difference(after, before)


def named_mask(case: Case, text: str) -> MaskUse | None:
    """The mask argument that a text names as a whole word."""
    return next((m for m in case.masks if re.search(rf"\b{re.escape(m.parameter)}\b", text)), None)


def flipped(use: MaskUse) -> MaskUse:
    return replace(use, polarity="drop" if use.polarity == "keep" else "keep")


__all__ = [
    "PER_ITEM",
    "call_for",
    "flipped",
    "keep_pattern",
    "leak",
    "mask_uses",
    "masked",
    "named_mask",
    "real_rows",
    "replaced",
]
