"""The mask of one item has no effect on another."""

from __future__ import annotations

from torch import Tensor

from regard.checks.call import Call
from regard.checks.case import Batch, Case, Verdict
from regard.checks.cross_talk import change_by_others
from regard.checks.mask_use import MaskUse
from regard.checks.masks import keep_pattern, mask_uses, masked
from regard.checks.rule import rule


@rule("ATT103", kinds=("mask-batch-head-order", "cache-stale"))
def mask_of_other_items(case: Case) -> list[Verdict]:
    """Changing the mask of the other items, or the mask of an earlier call, leaves an item's output as it is.

    What goes wrong: a table made from the first mask is kept and used for the next one of the same shape; or heads are folded into the batch item by item, and the mask is tiled head by head (or the other way
    round), so most rows are masked with the mask of another item.
    Why it matters: a batch of one is right; every larger batch is wrong, silently.

    Bad:
        mask = mask.repeat(heads, 1, 1)                    # scores are (B * H, T, S), item-major
    Good:
        mask = mask.repeat_interleave(heads, dim=0)
    """
    out = []
    for use, call in mask_uses(case, per_item=True):
        case.need(
            change_by_others(case) <= case.big, "items see each other without a mask too (see batch_independence)"
        )
        batch = case.sample(1, call=call)
        if batch[use.source].shape[0] < 2:
            continue
        keep = keep_pattern(use, batch)
        other = keep.clone()
        other[1:] = keep[1:].roll(1, -1)
        other[1:, 0] = True
        other[1:, -1] = ~keep[1:, -1]
        if use.shape == "lengths":
            other[1:] = False
            other[1:, :2] = True
        first, second = masked(case, call, use, batch, keep), masked(case, call, use, batch, other)
        rows = keep[0] if call.follows and use.source == call.query and first.shape[1] == keep.shape[1] else slice(None)
        change = case.difference(first[0][rows], second[0][rows])
        if change > case.big:
            out.append(Verdict(
                "error", f"item 0 changes by {change:.2g} (relative) when only the {use.parameter} of the other items changes",
                kind="mask-batch-head-order", measured=change, allowed=case.tolerance, example=f"batch {keep.shape[0]}, {keep.shape[1]} keys",
                cause="the mask is repeated in another order than batch and heads are folded", fix="mask.repeat_interleave(heads, dim=0) for scores folded as (B * H, T, S)",
            ))  # fmt: skip
            continue
        stale = _of_an_earlier_call(case, call, use, batch, (keep, other))
        if stale > case.big:
            out.append(Verdict(
                "error", f"after a call with another {use.parameter}, the output differs by {stale:.2g} (relative) from a new module's",
                kind="cache-stale", measured=stale, allowed=case.tolerance, example=f"two calls with other masks, batch {keep.shape[0]}, {keep.shape[1]} keys",
                cause="a table made from the first mask is kept in the module and used again", fix="make it anew in every call, or keep it by what it was made from",
            ))  # fmt: skip
    return out


def _of_an_earlier_call(case: Case, call: Call, use: MaskUse, batch: Batch, masks: tuple[Tensor, Tensor]) -> float:
    """How far the output moves (relative) when the same module was called with another mask before; 0 where it keeps a cache."""
    if not case.subject.is_module or case.cache is not None:
        return 0.0
    module = case.subject.instance(fresh=True)
    masked(case, call, use, batch, masks[0], module=module)
    after = masked(case, call, use, batch, masks[1], module=module)
    fresh = masked(case, call, use, batch, masks[1], module=case.subject.instance(fresh=True))
    twice = masked(case, call, use, batch, masks[1], module=module)
    settled = case.difference(twice, after) <= case.tolerance  # what changes with every call is no table
    return case.difference(after, fresh) if settled else 0.0
