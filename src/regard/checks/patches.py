"""Images that a model cuts into patches: a token is a patch, and the output has a row for each, perhaps after a class token."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from regard.checks.call import Call
from regard.checks.case import Case
from regard.checks.influence import influence
from regard.checks.layout import Layout

EXTRA = (0, 1, 2, 5)  # rows before those of the patches: class, distillation, registers
GRIDS = ((16, 24), (32, 48), (32, 32), (64, 64))  # other image sizes, for models that pad what does not fit
MOST = 100  # patches that can be followed one by one
OWN = 0.8  # the part of rows that must react most to their own patch


def settle_patches(case: Case) -> None:
    """Read the image as patches where the output follows them; else leave the call as it is."""
    source = case.call.sources[case.call.query]
    if case.call.follows or case.call.is_cross or source.layout.axes != "BDHW" or case.stochastic:
        return
    previous = case.call
    for grid in dict.fromkeys([source.grid, *GRIDS]):
        for call in _patched(case, previous, grid):
            case.call = call
            case.__dict__.pop("base", None)
            if _own(case):
                return
    case.call = previous
    case.__dict__.pop("base", None)


def _patched(case: Case, call: Call, grid: tuple[int, ...]) -> Iterator[Call]:
    """Calls with an image of this size, cut so that the rows of the output count its patches."""
    source = call.sources[call.query]
    image = replace(source, grid=grid)
    try:
        batch = case.sample(call=call.but(sources={call.query: image}))
        rows = case.run(batch, call=call.but(sources={call.query: image})).shape[1]
    except Exception:  # this size does not run
        return
    for extra in EXTRA:
        for side in range(2, min(grid) + 1):
            count = math.prod(n // side for n in grid)
            if any(n % side for n in grid) or count != rows - extra or not 4 <= count <= MOST:
                continue
            small = tuple(n // side for n in grid)
            cut = replace(source, grid=small, width=source.width * side**2, patch=side)
            yield call.but(sources={call.query: cut}, follows=True, skip=extra, output_layout=Layout("BLD"))


def _own(case: Case) -> bool:
    """Does nearly every row react most to the patch that it stands for?"""
    try:
        change = influence(case).change
    except Exception:  # what was a guess does not run
        return False
    if change.shape[0] != change.shape[1]:
        return False
    return float((change.argmax(1) == change.new_tensor(range(change.shape[0])).long()).double().mean()) >= OWN
