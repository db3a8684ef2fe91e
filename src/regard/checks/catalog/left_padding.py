"""Padding on the left gives what padding on the right and no padding give."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.checks.call import Call
from regard.checks.case import Batch, Case, Verdict
from regard.checks.infer_mask import call_for, masked, real_rows
from regard.checks.mask_cause import mask_cause
from regard.checks.mask_use import MaskUse
from regard.checks.masks import mask_uses, replaced
from regard.checks.roles import call_role
from regard.checks.rule import rule
from regard.checks.sites import watch

PAD = 2


@rule("ATT109", kinds=("mask-shifted", "cache-rope-offset", "padding-leak-nonattention"))
def left_padding(case: Case) -> list[Verdict]:
    """An item padded on the left, masked and counted from its first token, equals the item alone.

    Positions are handed over where the model takes them. A model that numbers the tokens itself and has no argument for it
    gives other numbers by design: it is not judged.
    What goes wrong: positions reach the queries and not the keys, or the table and not the rotation; the mask is turned into
    a length, which says that padding stands on the right.
    Why it matters: batched generation pads on the left; short prompts get other answers than alone.

    Bad:
        q = rotate(q, position_ids); k = rotate(k, torch.arange(T))
    Good:
        q, k = rotate(q, position_ids), rotate(k, position_ids)
    References: Hugging Face, generation with left padding.
    """
    uses = [
        (u, call_for(case, u.parameter)) for u, _ in mask_uses(case) if u.works and u.shape in ("BS", "B11S", "B1S")
    ]
    case.need(bool(uses), "no key mask that works")
    out, judged, reason = [], 0, ""
    for use, call in uses:
        case.need(len(call.sources[use.source].grid) == 1 and call.follows, "outputs do not stand for tokens in a row")
        case.need(case.call.free_length, "one length only")
        verdict, why = _judge(case, call, use)
        reason = why or reason
        judged += not why
        out += [verdict] if verdict is not None else []
    case.need(judged > 0, reason)
    return out


def _judge(case: Case, call: Call, use: MaskUse) -> tuple[Verdict | None, str]:
    """(what is wrong, why it cannot be told)."""
    batch = {n: x[:1] for n, x in case.sample(1, call=call).items()}
    keep = torch.ones(batch[use.source].shape[:2], dtype=torch.bool)
    keep[:, :PAD] = False
    alone, left = _alone(case, call, use, batch, keep), _padded(case, call, use, batch, keep, {})
    if not bool(torch.isfinite(left).all()):
        case.need(case.subject.dtype == torch.float64, "the padded item is not finite (see fully_masked_row)")
        return _judge(case.in_float32(), call, use)
    leak = case.difference(left, _padded(case, call, use, replaced(batch, use, keep, 5.0), keep, {}))
    if leak > case.big:
        behind = keep.clone()
        behind[:, 0] = True  # content of the first place stays
        others = case.difference(left, _padded(case, call, use, replaced(batch, use, behind, 5.0), keep, {}))
        if others <= case.tolerance:
            return None, "the first token is visible whatever the mask says, as a class token is"
        return _leaks(case, call, use, leak), ""
    right = _padded(case, call, use, *_to_the_right(batch, use, keep), {})
    if case.difference(right, alone) > case.big:
        return None, "padding on the right changes the output too (see padded_equals_trimmed)"
    names = [n for n in case.signature.positions if call_role(n) == "positions" and use.source == call.query]
    for name in (n for n in names if _understood(case, call, n)):
        numbered = {name: (keep.long().cumsum(1) - 1).clamp(min=0)}
        change = case.difference(_padded(case, call, use, batch, keep, numbered), alone)
        return (_differs(case, call, use, batch, keep, numbered, change) if change > case.big else None), ""
    same = case.difference(left, alone) <= case.big
    return None, "" if same else "tokens are numbered from the padding on, and no argument says where they stand"


def _padded(case: Case, call: Call, use: MaskUse, batch: Batch, keep: Tensor, more: dict[str, Tensor]) -> Tensor:
    """(R, F): the real rows of the padded item."""
    masks = use.arguments(keep, batch[call.query].shape[1], case.subject.dtype)
    out = case.run(batch, call=call, extra=masks | more)
    return out[real_rows(call, use, keep, out)]


def _alone(case: Case, call: Call, use: MaskUse, batch: Batch, keep: Tensor) -> Tensor:
    """(R, F): the rows of the item without its padding."""
    short = {n: x[:, PAD:] if n == use.source else x for n, x in batch.items()}
    try:
        return masked(case, call, use, short, keep[:, PAD:]).flatten(0, 1)
    except Exception:
        case.need(False, "a shorter item does not run")
        raise


def _to_the_right(batch: Batch, use: MaskUse, keep: Tensor) -> tuple[Batch, Tensor]:
    return {n: x.roll(-PAD, 1) if n == use.source else x for n, x in batch.items()}, keep.roll(-PAD, 1)


def _understood(case: Case, call: Call, name: str) -> bool:
    """Is 0, 1, 2 ... what it means to give nothing, and does it matter what is given?"""
    batch = case.sample(1, call=call)
    count = torch.arange(batch[call.query].shape[1])[None]
    plain = case.run(batch, call=call)
    try:
        same, other = (
            case.run(batch, call=call, extra={name: c.expand(plain.shape[0], -1)}) for c in (count, 2 * count)
        )
    except Exception:
        return False
    return case.difference(same, plain) <= case.tolerance and case.difference(other, plain) > case.tolerance


def _leaks(case: Case, call: Call, use: MaskUse, leak: float) -> Verdict:
    kind, cause, fix = mask_cause(case, call, use)
    return Verdict(
        "error", f"content padded on the left and hidden by {use.parameter} changes real outputs by {leak:.2g} (relative)",
        kind=kind or "mask-shifted", measured=leak, allowed=case.tolerance, example=f"{PAD} tokens of padding on the left of one item",
        cause=cause if kind else "padding is taken to stand on the right", fix=fix,
    )  # fmt: skip


def _differs(
    case: Case, call: Call, use: MaskUse, batch: Batch, keep: Tensor, numbered: dict[str, Tensor], change: float
) -> Verdict:
    """An error when each query sees the same keys in both; where it sees others, what it sees may depend on the place."""
    (name,) = numbered
    same = _same_keys(case, call, use, batch, keep, numbered)
    return Verdict(
        "error" if same else "question",
        f"an item padded on the left, with {use.parameter} and {name} that say so, differs from the item alone by {change:.2g} (relative)"
        + ("" if same else ": queries see other keys. Does what they see depend on their place in the padded sequence?"),
        kind="cache-rope-offset" if same else None, measured=change, allowed=case.tolerance, example=f"{PAD} tokens of padding on the left, {name} from 0 at the first token",
        cause=f"{name} reaches some of the places where positions count, and not all" if same else None, fix="take every position from the argument",
    )  # fmt: skip


def _same_keys(case: Case, call: Call, use: MaskUse, batch: Batch, keep: Tensor, numbered: dict[str, Tensor]) -> bool:
    short = {n: x[:, PAD:] if n == use.source else x for n, x in batch.items()}
    T, dtype = batch[call.query].shape[1], case.subject.dtype
    long = watch(case, batch, call=call, extra=use.arguments(keep, T, dtype) | numbered).sites
    alone = watch(case, short, call=call, extra=use.arguments(keep[:, PAD:], short[call.query].shape[1], dtype)).sites
    if len(long) != len(alone):
        return False
    for a, b in zip(long, alone):
        seen, want = a.visible(), b.visible()
        if seen is None or want is None or not torch.equal(seen[..., -want.shape[-2] :, -want.shape[-1] :], want):
            return False
    return True
