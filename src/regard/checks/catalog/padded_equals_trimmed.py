"""A padded item gives what it gives alone, trimmed."""

from __future__ import annotations

import re

import torch
from torch import nn

from regard.checks.call import Call
from regard.checks.case import Case, NotExercised, Verdict
from regard.checks.mask_cause import mask_cause
from regard.checks.mask_use import MaskUse
from regard.checks.masks import keep_pattern, leak, mask_uses, masked
from regard.checks.rule import rule


@rule(
    "ATT102",
    kinds=(
        "mask-multiplied",
        "mask-after-softmax",
        "mask-shifted",
        "linear-normaliser-wrong",
        "padding-leak-nonattention",
    ),
)
def padded_equals_trimmed(case: Case) -> list[Verdict]:
    """An item padded at the end and masked equals the same item without its padding.

    Where padding in front changes nothing, places are counted from the last token (the newest entry of a history): a question.
    What goes wrong: hidden keys keep a share of the weight although their content has no effect (a score of 0, a mask
    after the softmax, a normaliser that counts them), a norm pools over padding, or a sum over real tokens is divided by
    the padded length.
    Why it matters: a batch gives other answers than single items.

    Bad:
        weights = scores.softmax(-1) * keep                  # rows no longer sum to 1
    Good:
        weights = scores.masked_fill(~keep, float("-inf")).softmax(-1)
    """
    out = []
    for use, call in mask_uses(case):
        if not use.changes or leak(case, call, use, 5.0)[0] > case.big:
            continue  # padding_content has spoken
        case.need(
            not _drawn_anew(call),
            "an argument that goes with the tokens was made up, and is another one at another length",
        )
        change = _change(case, call, use)
        if change > case.big and _in_front(case, call, use):
            out.append(_asks(case, use, change))
        elif change > case.big:
            kind, cause, fix = mask_cause(case, call, use)
            if kind == "padding-leak-nonattention":
                cause = "hidden positions are counted where lengths matter: in a mean, a norm, or a normaliser"
                fix = "divide by the number of real tokens, not by the padded length"
            out.append(
                Verdict(
                    "error",
                    f"an item padded under {use.parameter} differs from the same item trimmed by {change:.2g} (relative)",
                    kind=kind,
                    measured=change,
                    allowed=case.tolerance,
                    example="two tokens of padding at the end of item 0",
                    cause=cause,
                    fix=fix,
                )
            )
    return out


def _asks(case: Case, use: MaskUse, change: float) -> Verdict:
    return Verdict(
        "question",
        f"an item padded at its end under {use.parameter} differs from the same item trimmed by {change:.2g} (relative), "
        "and padded in front it does not: is it always padded in front?",
        measured=change,
        allowed=case.tolerance,
        example="two tokens of padding at the end of item 0",
        cause="places are counted from the last token",
        fix="say on which side the padding stands, or count places from the last visible token",
    )


def _in_front(case: Case, call: Call, use: MaskUse) -> bool:
    """Does the same padding in front change nothing? Then places are counted from the last token, as in a history whose newest entry comes last."""
    if use.shape == "lengths":  # padding stands behind
        return False
    try:
        return _change(case, call, use, front=True) <= case.tolerance
    except NotExercised:
        return False


def _change(case: Case, call: Call, use: MaskUse, *, front: bool = False) -> float:
    case.need(len(call.sources[use.source].grid) == 1, "tokens lie in a fixed grid")
    batch = case.sample(1, call=call)
    keep = keep_pattern(use, batch, last=True)
    keep[0, -2:] = False
    keep = keep.flip(1) if front else keep
    _fill_with_padding(case, batch[use.source], keep)
    padded = masked(case, call, use, batch, keep)
    count = int(keep[0].sum())
    case.need(count > 0, "too few tokens to leave one beside the padding")
    part = slice(keep.shape[1] - count, None) if front else slice(count)
    short = {n: (x[:1, part] if n == use.source else x[:1]) for n, x in batch.items()}
    try:
        alone = masked(case, call, use, short, torch.ones(1, count, dtype=torch.bool))
    except Exception:
        case.need(False, "a shorter item does not run")
    if alone.shape[2:] != padded.shape[2:] or (not call.follows and alone.shape[1:] != padded.shape[1:]):
        case.need(False, "the output has an axis of keys, which trimming shortens")
    follows = call.follows and use.source == call.query
    return case.difference(padded[:1, part] if follows else padded[:1], alone)


def _fill_with_padding(case: Case, ids: torch.Tensor, keep: torch.Tensor) -> None:
    """Put the id that an embedding of the module keeps for padding where ids are hidden, in place: callers do, and it may be looked for."""
    parts = case.subject.pristine.modules() if case.subject.is_module else ()
    kept = {m.padding_idx for m in parts if isinstance(m, nn.Embedding) and m.padding_idx is not None}
    if len(kept) == 1 and not ids.is_floating_point():
        ids[~keep] = kept.pop()


def _drawn_anew(call: Call) -> bool:
    """Does an argument that we made up, with an entry for each token or pair, hold other numbers at another length?"""
    made = [v.__doc__ or "" for v in call.fixed.values() if callable(v)]
    return any(re.match(r"made up \((?!seen)\w+\), \(.*\bL\b", text) for text in made)
