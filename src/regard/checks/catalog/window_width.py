"""A window has the width that the author names: keys of a line, or pixels of a map."""

from __future__ import annotations

import re

from torch import Tensor, nn

from regard.checks.case import Case, NotExercised, Verdict
from regard.checks.field import field_of
from regard.checks.influence import influence
from regard.checks.inner_evidence import inner_evidence
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
    case.need(case.call.follows and not case.call.is_cross, "outputs do not stand for the tokens of one stream")
    case.need_determinism()
    if len(case.call.sources[case.call.query].grid) == 2:
        return _on_a_map(case)
    case.need(len(case.call.sources[case.call.query].grid) == 1, "neither a line of tokens nor a map")
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
    said = next((w for e in (case.evidence, *inner_evidence(case)) if (w := e.says(INCLUSIVE))), None)
    exact = said is not None or declared is not None
    return Verdict(
        "error" if exact else "question", f"a query sees {width} keys, itself included; the window is {named}" + (f" ({said!r})" if said else "" if exact else ": does it count itself?"),
        kind="window-off-by-one", measured=width, allowed=named, example=f"length {n}", cause="<= where < was meant" if width == named + 1 else "another width in the band", fix="keep = (gap >= 0) & (gap < window)",
    )  # fmt: skip


def _on_a_map(case: Case) -> Verdict | None:
    """A pixel of one windowed attention sees rows x columns pixels, and no others; only where the window is declared."""
    said = case.design.window
    case.need(isinstance(said, int | tuple), "no window was declared for this map")
    rows, columns = (said, said) if isinstance(said, int) else said
    case.need(len({site.path for site in attention_sites(case)}) == 1, "more than one attention: each widens the field")
    parts = case.subject.pristine.modules() if case.subject.is_module else ()
    wide = [m for m in parts if isinstance(m, nn.modules.conv._ConvNd) and max(m.kernel_size) > 1]
    case.need(not wide, "a convolution widens the field")
    grid = (2 * rows, 3 * columns)
    try:
        field = field_of(case, grid)
    except NotExercised:
        raise
    except Exception:
        case.need(False, f"a map of {grid[0]} x {grid[1]} does not run")
    case.need(not bool(field.sees.all(0).any()), "some tokens are seen by all")
    most = int(field.sees.sum(-1).argmax())
    seen, spans = int(field.sees[most].sum()), field.spans(most)
    if seen == rows * columns and tuple(map(len, spans)) == (rows, columns):
        return None
    at = divmod(most, grid[1])
    return Verdict(
        "error", f"pixel {at} of {grid[0]} x {grid[1]} sees {seen} pixels, in rows {spans[0]} and columns {spans[1]}; the window is {rows} x {columns}",
        kind="window-off-by-one", measured=seen, allowed=rows * columns, example=f"size {grid[0]} x {grid[1]}", cause="another window than was declared", fix="rows and columns of the window that was declared, both at once",
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
