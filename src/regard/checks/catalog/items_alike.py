"""Every item of a batch is treated alike."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.checks.case import Case, Verdict
from regard.checks.catalog.batch_first_contradiction import batch_is_said
from regard.checks.cross_talk import change_and_item
from regard.checks.influence import influence, replace_token
from regard.checks.rule import rule
from regard.checks.settle import mixing


@rule("ATT313", kinds=("causal-missing", "batch-first"))
def items_alike(case: Case) -> Verdict | None:
    """An item gets the same output at every place of its batch.

    What goes wrong: a mask is filled in for the first item only; a table of positions is added along the batch axis, since
    it was written for sequence-first tensors.
    Why it matters: the same text gets another answer at another place of the batch, and no other item has to change for it.
    Right by design where items are nodes or channels with embeddings of their own: without the author's word for the batch
    that is a question.

    Bad:
        mask[0] = ahead                            # (B, L, L): the first item's rows alone
        x = x + self.table[: x.size(0)]            # (B, L, D): one row for each item
    Good:
        mask = ahead.expand(B, L, L)
        x = x + self.table[: x.size(1)]
    """
    source = case.call.sources[case.call.query]
    case.need(source.batch > 1 and case.call.free_batch, "the number of items is fixed: they may be nodes or channels")
    case.need(not case.facts.get("axis_by_behaviour"), "the batch axis was told by behaviour (see batch_independence)")
    case.need_determinism()
    case.need(change_and_item(case)[0] <= case.tolerance, "items see each other (see batch_independence)")
    batch, base = case.base
    case.need(all(x.shape[0] == base.shape[0] for x in batch.values()), "not every stream has one entry for an item")
    case.need(mixing(case)[1], "nothing passes between tokens, so the axes cannot be told apart")
    turned = case.run({n: x.roll(1, 0) for n, x in batch.items()})
    change = case.difference(turned, base.roll(1, 0))
    if change <= case.big:
        return None
    free = _other_numbers_run(case, base.shape[0])
    case.need(free, "the number of items is fixed: they may be nodes or channels")
    hidden = _sees_ahead(case, base) if case.call.follows and not case.call.is_cross else None
    said = batch_is_said(case)
    if hidden is not None:
        causal, other = hidden
        return Verdict(
            "error", f"item {causal} does not see its later tokens, and item {other} does: the mask holds for some items only",
            kind="causal-missing", measured=change, allowed=case.tolerance, example=f"input {tuple(source.shape)}, the items turned by one",
            cause="the mask is filled in along the first axis for one item only", fix="give every item the same mask: mask.expand(B, L, L)",
        )  # fmt: skip
    return Verdict(
        "error" if said else "question",
        f"the same item gets another output at another place of the batch ({change:.2g}, relative), and no item sees the others" + ("" if said else ": are they nodes or channels?"),
        kind="batch-first", measured=change, allowed=case.tolerance, example=f"input {tuple(source.shape)}, the items turned by one",
        cause="positions or parameters are added along the batch axis, as for sequence-first tensors", fix="index them with the tokens: table[: x.size(1)]",
    )  # fmt: skip


def _other_numbers_run(case: Case, items: int) -> bool:
    """Does one item run, and do two more?"""
    try:
        for count in (1, items + 2):
            case.run(case.sample(batch=count))
    except Exception:
        return False
    return True


def _sees_ahead(case: Case, base: Tensor) -> tuple[int, int] | None:
    """(an item that sees no later token, one that does); None where all are alike."""
    case.need(influence(case).square, "outputs do not stand for the tokens of one sequence")
    batch = case.sample()
    items, tokens = base.shape[:2]
    size = max(float(base.abs().max()), 1e-12)
    ahead = []
    for item in range(items):
        moved = {n: x.clone() for n, x in batch.items()}
        replace_token(moved[case.call.query], item, tokens - 1, number=item)
        change = (case.run(moved)[item, :-1] - base[item, :-1]).abs().nan_to_num(0.0).amax() / size
        ahead.append(bool(change > case.tolerance))
    seen = torch.tensor(ahead)
    return None if bool(seen.all()) or not bool(seen.any()) else (ahead.index(False), ahead.index(True))
