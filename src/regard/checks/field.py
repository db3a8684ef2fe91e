"""The field of a pixel: which input pixels its output depends on, on a grid, and what shape those sets have."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass

from torch import Tensor

from regard.checks.case import Case
from regard.checks.influence import influence
from regard.checks.sites import watch


@dataclass(frozen=True)
class Field:
    """sees: (N, N) bool over a grid (H, W), or (1, L) for a line."""

    sees: Tensor
    grid: tuple[int, int]

    @property
    def local(self) -> bool:
        """Does every pixel see some pixels and not others?"""
        counts = self.sees.sum(-1)
        return bool((counts > 1).any()) and bool((counts < self.sees.shape[1]).any())

    def spans(self, token: int) -> tuple[list[int], list[int]]:
        """Rows and columns that a pixel sees."""
        seen = self.sees[token].reshape(self.grid)
        return seen.any(1).nonzero().flatten().tolist(), seen.any(0).nonzero().flatten().tolist()


def field_of(case: Case, grid: tuple[int, ...] | None = None) -> Field:
    """The measured field at the known size, or at another grid or length."""
    source = case.call.sources[case.call.query]
    if grid is None:
        found, grid = influence(case), source.grid
    elif len(source.grid) == 1:
        found = influence(case, tokens=grid[0])
    else:
        name = case.call.query
        count = grid[0] * grid[1]
        found = influence(case, tokens={name: count}, grids={name: grid})
    case.need(found.square, "as many outputs as inputs are needed")
    case.need(not _by_content(case), "what a token sees depends on its content (sparse weights)")
    return Field(found.sees, (1, grid[0]) if len(grid) == 1 else (grid[0], grid[1]))


def _by_content(case: Case) -> bool:
    """Do weights that are exactly zero stand elsewhere for another input?"""
    if "by_content" not in case.facts:
        pattern = []
        for number in (0, 1):
            maps = [s.weights() for s in watch(case, case.sample(number)).sites]
            pattern.append([m == 0 for m in maps if m is not None])
        same = len(pattern[0]) == len(pattern[1]) and all(
            a.shape == b.shape and bool((a == b).all()) for a, b in zip(*pattern)
        )
        case.facts["by_content"] = not same
    return case.facts["by_content"]


def gaps(line: list[int]) -> list[int]:
    """Steps between neighbours."""
    return [b - a for a, b in itertools.pairwise(line)]


def wrapped(field: Field) -> list[int]:
    """Pixels that see both ends of a line and a hole between, while others see one piece at least as long.

    That is a window that was rolled and not cut: joined end to start, the two parts are one piece of a window's size. Tokens
    that everybody sees (a class token, global tokens) belong to no window and are left out, as rows and as columns.
    """
    everywhere = field.sees.all(0) | field.sees.all(1)
    local = Field(field.sees & ~everywhere, field.grid)
    lines = {t: local.spans(t) for t in range(len(everywhere)) if not bool(everywhere[t])}
    steps = Counter(s for pair in lines.values() for line in pair for s in gaps(line))
    if not steps:
        return []
    usual = max(steps, key=lambda k: steps[k])
    out: list[int] = []
    for axis, size in enumerate(field.grid):
        along = {t: pair[axis] for t, pair in lines.items()}
        pieces = [len(line) for line in along.values() if line and all(s == usual for s in gaps(line))]
        longest = max((n for n in pieces if n * usual < size), default=0)
        for t, line in along.items():
            holes = [s for s in gaps(line) if s != usual]
            if len(holes) == 1 and holes[0] > usual and _at_both_ends(line, size) and len(line) <= longest:
                out += [t] if _shared(t, line, along, axis, field.grid) else []
    return sorted(set(out))


def _shared(token: int, line: list[int], along: dict[int, list[int]], axis: int, grid: tuple[int, int]) -> bool:
    """Does another token of the same row (or column) see the same? The tokens of a window do; those of a pair map do not."""
    places = {t: divmod(t, grid[1])[axis] for t in along}
    mates = [t for t, place in places.items() if t != token and place == places[token]]
    return not mates or any(along[t] == line for t in mates)


def _at_both_ends(line: list[int], size: int) -> bool:
    return line[0] == 0 and line[-1] == size - 1 and len(line) < size


def contiguous_blocks(field: Field) -> bool:
    """Are all fields boxes without holes, each smaller than the grid?"""
    for t in range(field.sees.shape[0]):
        rows, columns = field.spans(t)
        if any(s != 1 for s in gaps(rows) + gaps(columns)) or int(field.sees[t].sum()) != len(rows) * len(columns):
            return False
    return field.local


def partition(field: Field) -> bool:
    """Do pixels that see each other form separate groups (windows)?"""
    s = field.sees
    return bool((s == s.T).all()) and bool(((s.double() @ s.double() > 0) == s).all())


def other_grids(case: Case) -> list[tuple[int, ...]]:
    """Other sizes to try, small ones first, not square."""
    source = case.call.sources[case.call.query]
    if len(source.grid) == 1:
        n = source.tokens
        return [(n + n // 2,), (2 * n,), (3 * n,), (n + 4,)]
    h, w = source.grid
    most = 150 if source.patch == 1 else 50  # a patch is many pixels
    tried = [(8, 8), (8, 12), (12, 8), (h, w + h), (w, h), (7, 9), (6, 6), (4, 8)]
    return [g for g in dict.fromkeys(tried) if g != (h, w) and g[0] * g[1] <= most]


__all__ = ["Field", "contiguous_blocks", "field_of", "gaps", "other_grids", "partition", "wrapped"]
