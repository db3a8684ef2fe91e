"""The mask of one item has no effect on another."""

from __future__ import annotations

from regard.checks.case import Case, Verdict
from regard.checks.cross_talk import change_by_others
from regard.checks.masks import keep_pattern, mask_uses, masked
from regard.checks.rule import rule


@rule("ATT103", kinds=("mask-batch-head-order",))
def mask_of_other_items(case: Case) -> list[Verdict]:
    """Changing the mask of the other items leaves an item's output as it is.

    What goes wrong: heads are folded into the batch item by item, and the mask is tiled head by head (or the other way
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
    return out
