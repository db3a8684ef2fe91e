"""A causal sliding window has the width that the author names."""

from __future__ import annotations

import re

from torch import Tensor

from regard.checks.case import Case, NotExercised, Verdict
from regard.checks.influence import influence
from regard.checks.rule import rule
from regard.checks.sites import attention_sites, watch

NAMES = r"(sliding_?|local_?|attn_?|attention_?)?window(_?size|_?len(gth)?|_?width)?|w|ws|look_?back|context_?size|sliding_window"
INCLUSIVE = r"(itself|self|own( position)?)[^.;]{0,20}includ|includ\w*[^.;]{0,20}(itself|self|own)|number of keys|among them|current (one|token)|\bw\w* ?- ?1 (previous |preceding |earlier |past |last )?(tokens?|keys?|positions?|before|earlier)|(previous|preceding|earlier|past) w\w* ?- ?1\b"


@rule("ATT807", kinds=("window-off-by-one", "window-symmetric"))
def window_width(case: Case) -> Verdict | None:
    """A query far from the start sees as many keys as the window says.

    The width is measured, and compared with an attribute of the module or a default of its call. Libraries count
    differently (W keys, W + 1 keys, W on each side), so a width that is one more is an error only where the text says that
    W counts the keys, itself included; elsewhere it is a question.
    What goes wrong: < instead of <=, a band on both sides, another band when decoding.
    Why it matters: a checkpoint trained with 4,096 keys sees 4,097.

    Bad:
        keep = (gap >= 0) & (gap <= window)
    Good:
        keep = (gap >= 0) & (gap < window)
    """
    case.need(
        case.call.follows and not case.call.is_cross and len(case.call.sources[case.call.query].grid) == 1,
        "not one line of tokens",
    )
    case.need_determinism()
    declared = case.design.window if isinstance(case.design.window, int) else None
    named = declared or case.evidence.number(NAMES) or _in_the_call(case)
    if named is None or not 1 < named < 40:
        raise NotExercised("no window size is known")
    try:
        found = influence(case, tokens=3 * named + 3)
    except Exception:
        case.need(False, f"a length of {3 * named + 3} does not run")
    case.need(found.square, "as many outputs as tokens are needed")
    n = found.sees.shape[0]
    left = sum(1 for d in range(1, n) if bool(found.sees.diagonal(-d)[n // 2 - d if n // 2 >= d else 0 :].any()))
    right = sum(1 for d in range(1, n) if bool(found.sees.diagonal(d).any()))
    case.need(left < n - 2, "every query sees the whole past")
    if right:
        return None
    width = left + 1
    if width != named and len({site.path for site in attention_sites(case)}) > 1:
        case.need(
            _in_each_layer(case, n, named),
            "layers on top of each other see further than one, and none shows this window",
        )
        return None
    case.need(_sliding(found.sees, left), "the field is no band: it moves in steps")
    if width == named:
        return None
    said = case.evidence.says(INCLUSIVE)
    exact = said is not None or declared is not None
    return Verdict(
        "error" if exact else "question", f"a query sees {width} keys, itself included; the window is {named}" + (f" ({said!r})" if said else "" if exact else ": does it count itself?"),
        kind="window-off-by-one", measured=width, allowed=named, example=f"length {n}", cause="<= where < was meant" if width == named + 1 else "another width in the band", fix="keep = (gap >= 0) & (gap < window)",
    )  # fmt: skip


def _in_the_call(case: Case) -> int | None:
    """The window that the call itself takes, by its default: forward(x, window=4)."""
    for p in case.subject.signature().parameters.values():
        taken = p.name in case.call.arguments or p.name in case.call.fixed
        if not taken and type(p.default) is int and "window" in p.name and re.fullmatch(NAMES, p.name):
            return p.default
    return None


def _in_each_layer(case: Case, length: int, window: int) -> bool:
    """Do the layers whose last query does not see everything see just the window?"""
    seen = [site.visible() for site in watch(case, case.sample(tokens=length)).sites]
    widths = {int(s[..., -1, :].reshape(-1, s.shape[-1])[0].sum()) for s in seen if s is not None}
    return widths - {length} == {window}


def _sliding(sees: Tensor, left: int) -> bool:
    n = sees.shape[0]
    return all(int(sees[t].sum()) == min(t, left) + 1 for t in range(n))
