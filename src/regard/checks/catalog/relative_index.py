"""A 2-D relative bias gives equal offsets equal values and different offsets their own."""

from __future__ import annotations

import torch

from regard.checks.case import Case, Verdict
from regard.checks.positions import Places, places
from regard.checks.rule import rule


@rule("ATT804", kinds=("relative-index-collision",))
def relative_index(case: Case) -> Verdict | None:
    """In a window with a table of (2h - 1)(2w - 1) biases, every offset reads its own entry.

    What goes wrong: the row offset is multiplied by the wrong stride (h instead of 2w - 1), so different offsets share an
    entry, or equal offsets do not.
    Why it matters: silent on square windows of some sizes; wrong on all others.

    Bad:
        index = dy * (2 * h - 1) + dx
    Good:
        index = dy * (2 * w - 1) + dx
    References: Liu et al. 2021 (Swin), section 3.2.
    """
    case.need(case.subject.is_module, "a function has no table")
    case.need_determinism()
    for p in places(case):
        n = p.scores.shape[-1]
        windows = _windows(case, n)
        if not windows or not p.added:
            continue
        verdicts = [_at(p, w, n) for w in windows]
        return verdicts[0] if all(v is not None for v in verdicts) else None
    case.need(False, "no window with a 2-D table of relative biases was seen")
    return None


def _at(p: Places, window: tuple[int, int], n: int) -> Verdict | None:
    """The relation in a window of this shape."""
    offsets = _offsets(window)
    scores = p.scores.nan_to_num(0.0)
    seen: dict[tuple[float, ...], tuple[int, int]] = {}
    for o in sorted(set(offsets)):
        at = torch.tensor([x == o for x in offsets]).reshape(n, n)
        values = scores[:, at]
        if float((values - values[:, :1]).abs().max()) > 1e-9:
            return _verdict(p, f"pairs with the same offset {o} get different biases", window)
        mark = tuple(round(float(x), 9) for x in values[:, 0])
        if mark in seen:
            return _verdict(p, f"offsets {seen[mark]} and {o} share one entry of the table", window)
        seen[mark] = o
    return None


def _windows(case: Case, n: int) -> list[tuple[int, int]]:
    """(h, w) with h * w = n for which a parameter has (2h - 1)(2w - 1) rows; only the one that the author names, if one does."""
    sizes = {s for p in case.subject.pristine.parameters() for s in p.shape} | {
        p.shape[0] * p.shape[1] for p in case.subject.pristine.parameters() if p.ndim > 2
    }
    fits = [(h, n // h) for h in range(2, n // 2 + 1) if n % h == 0 and (2 * h - 1) * (2 * (n // h) - 1) in sizes]
    named = case.design.window
    declared = tuple(named) if isinstance(named, (tuple, list)) else _declared(case, fits)
    square = [f for f in fits if f[0] == f[1]]
    return [declared] if declared in fits else square or fits


def _declared(case: Case, fits: list[tuple[int, int]]) -> tuple[int, int] | None:
    """Of (2, 4) and (4, 2), the one that the module's attributes name; None if they do not."""
    for part in case.subject.pristine.modules():
        for value in vars(part).values():
            if isinstance(value, (tuple, list)) and tuple(value) in fits:
                return tuple(value)
    return None


def _offsets(window: tuple[int, int]) -> list[tuple[int, int]]:
    h, w = window
    spots = [(y, x) for y in range(h) for x in range(w)]
    return [(a[0] - b[0], a[1] - b[1]) for a in spots for b in spots]


def _verdict(p, what: str, window: tuple[int, int]) -> Verdict:
    return Verdict(
        "error",
        f"in a window {window[0]} x {window[1]}, {what}",
        kind="relative-index-collision",
        measured=what,
        allowed="one entry for each offset",
        where=p.site.where or None,
        example=f"{window[0] * window[1]} identical tokens",
        cause="the stride of the row offset is not 2 * width - 1",
        fix="index = (dy + h - 1) * (2 * w - 1) + dx + w - 1",
    )
