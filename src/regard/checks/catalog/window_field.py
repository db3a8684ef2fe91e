"""Windows see their own pixels, at every size, and opposite borders do not see each other."""

from __future__ import annotations

import inspect

import torch

from regard.checks.case import Case, Verdict
from regard.checks.field import Field, contiguous_blocks, field_of, other_grids, partition, wrapped
from regard.checks.roles import constructor_role
from regard.checks.rule import rule
from regard.checks.sites import attention_sites

GRID_WORDS = (
    r"grid|dilated|strided|sparse"
    r"|\b(sees?|attends?|reads?|mixes|meets?|looks? at|listens? to)\b(?:(?!bias|table|weight|shar|learn|add)[^.;]){0,40}\b(own|same) (offset|place|position) (in|of|inside|within) (every|each|all|the other)\b"
)


def _fields(case: Case) -> list[Field]:
    """The field at the known size and at others that run; NotExercised unless it is local somewhere."""
    key = "fields"
    if key not in case.facts:
        case.need(case.call.follows and not case.call.is_cross, "outputs do not stand for the tokens of one stream")
        case.need(bool(attention_sites(case)), "no attention was seen inside")
        case.need(not case.facts.get("causal"), "it is causal")
        case.need(_structural(case), "no window and no mask was seen inside: every key is open to every query")
        case.need_determinism()
        found = [field_of(case)]
        for grid in other_grids(case):
            try:
                found.append(field_of(case, grid))
            except Exception:
                continue
        case.facts[key] = found
    fields = case.facts[key]
    case.need(any(f.local for f in fields), "every token sees every token")
    return fields


def _structural(case: Case) -> bool:
    """Is some site given fewer keys than there are tokens, or does a mask hide some?"""
    tokens = case.call.sources[case.call.query].tokens
    for site in attention_sites(case):
        shape, seen = site.shape, site.visible()
        if shape is not None and shape[-1] < tokens:
            return True
        if seen is not None and not bool(seen.all()) and site.kind != "other":
            return True
    return False


@rule("ATT805", kinds=("shift-mask", "window-reverse"))
def opposite_borders(case: Case) -> Verdict | None:
    """In shifted-window attention, pixels of opposite borders do not see each other, at any size.

    Which pixels an output depends on is measured, at the known size and at others.
    What goes wrong: windows are put back in another order, the shift mask is missing, painted on the wrong axes, built for one image size, or the image is
    rolled before it is padded.
    Why it matters: the left border of an image attends to its right border.

    Bad:
        if L == self.length: scores = scores.masked_fill(self.hide, -100)
    Good:
        scores = scores.masked_fill(region_mask(H, W), float("-inf"))
    References: Liu et al. 2021 (Swin), figure 4.
    """
    built = _built_for(case)
    clean = built is not None and any(f.grid == built and not wrapped(f) for f in _fields(case))
    for field in _fields(case):
        if not field.local:
            continue
        if (elsewhere := _other_window(field)) is not None:
            return elsewhere
        far = wrapped(field)
        if far and len(far) < field.sees.shape[0]:
            t = far[0]
            rows, columns = field.spans(t)
            h, w = field.grid
            where = (
                f"pixel ({t // w}, {t % w}) of {h} x {w} sees rows {rows} and columns {columns}"
                if h > 1
                else f"token {t} of {w} sees {columns}"
            )
            asks = ""
            if clean and built is not None and field.grid != built:
                asks = f"; it was built for {built[0]} x {built[1]}: is another size meant?"
            return Verdict(
                "question" if asks else "error",
                f"opposite borders see each other: {where}{asks}",
                kind="shift-mask",
                measured=f"{len(far)} of {field.sees.shape[0]} tokens",
                allowed="0",
                example=f"size {h} x {w}" if h > 1 else f"length {w}",
                cause="the cyclic shift is not masked at this size",
                fix="build the shift mask from the regions of the actual, padded size, after the roll",
            )
    return None


def _other_window(field: Field) -> Verdict | None:
    """A pixel that sees itself and, beside that, just a rectangle of others in which it does not lie: it got the rows of another window."""
    h, w = field.grid
    if min(h, w) < 2:
        return None
    own = torch.eye(field.sees.shape[0], dtype=torch.bool)
    wrong = []
    for t, others in enumerate(field.sees & ~own):
        at = others.nonzero().flatten()
        rows, columns = at // w, at % w
        if at.numel() < 2:
            return None
        top, left = int(rows.min()), int(columns.min())
        size = (int(rows.max()) - top + 1, int(columns.max()) - left + 1)
        inside = top <= t // w < top + size[0] and left <= t % w < left + size[1]
        if size[0] * size[1] == at.numel() and min(size) > 1 and not inside:
            wrong.append((t, top, left, size))
    if len({w[1:] for w in wrong}) < 2:
        return None  # one rectangle for all: a grid of pools that leaves out the border
    t, top, left, size = wrong[0]
    return Verdict(
        "error", f"pixel ({t // w}, {t % w}) of {h} x {w} sees itself and the {size[0]} x {size[1]} pixels from ({top}, {left}) on, a window that is not its own",
        kind="window-reverse", measured=f"{len(wrong)} of {field.sees.shape[0]} pixels", allowed="0", example=f"size {h} x {w}",
        cause="windows are put back in another order than they were cut", fix="view(B, H // s, W // s, s, s, C), then transpose as when cutting",
    )  # fmt: skip


def _built_for(case: Case) -> tuple[int, int] | None:
    """The map size that the constructor was told: at any other, the module may be outside what it promises."""
    if not case.subject.is_module:
        return None
    given = {**vars(case.subject.pristine), **case.facts.get("init", {})}
    for p in inspect.signature(type(case.subject.pristine).__init__).parameters.values():
        size = given.get(p.name, None if p.default is p.empty else p.default)
        if constructor_role(p.name) == "grid" and size is not None:
            pair = (size, size) if isinstance(size, int) else size
            if isinstance(pair, tuple | list) and len(pair) == 2:
                return (int(pair[0]), int(pair[1]))
    return None


@rule("ATT806", kinds=("grid-partition",))
def grid_partition(case: Case) -> Verdict | None:
    """Grid (dilated) attention sees pixels that lie apart, not a block.

    Applies where the author speaks of a grid, of dilation or of strides.
    What goes wrong: the axes of the partition are those of block attention.
    Why it matters: alternating block and grid attention is what lets information cross windows; two blocks do not.

    Bad:
        x.view(B, H // g, g, W // g, g, C).permute(0, 1, 3, 2, 4, 5)
    Good:
        x.view(B, g, H // g, g, W // g, C).permute(0, 2, 4, 1, 3, 5)
    References: Tu et al. 2022 (MaxViT), section 3.2.
    """
    said = case.evidence.says(GRID_WORDS)
    declared = isinstance(case.design.window, str) and "grid" in case.design.window
    case.need(said is not None or declared, "nothing speaks of a grid or of dilation")
    fields = [f for f in _fields(case) if f.local and f.grid[0] > 1]
    case.need(bool(fields), "no size at which the field is local")
    for field in fields:
        if contiguous_blocks(field) and partition(field):
            rows, columns = field.spans(0)
            return Verdict(
                "error",
                f"the author says {said or 'grid'!r}, but pixels see contiguous blocks: pixel (0, 0) sees rows {rows} and columns {columns}",
                kind="grid-partition",
                measured=f"block {len(rows)} x {len(columns)}",
                allowed="pixels spread over the image",
                example=f"size {field.grid[0]} x {field.grid[1]}",
                cause="the axes of the partition are those of block attention",
                fix="view(B, g, H // g, g, W // g, C) and attend over the two axes of length g",
            )
    return None
