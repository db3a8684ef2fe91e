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
    """Pixels whose field falls in two far parts while most fields are in one piece: opposite borders see each other."""
    steps: Counter[int] = Counter()
    for t in range(field.sees.shape[0]):
        for line in field.spans(t):
            steps.update(gaps(line))
    if not steps:
        return []
    usual = max(steps, key=lambda k: steps[k])
    out = []
    for t in range(field.sees.shape[0]):
        for line, size in zip(field.spans(t), field.grid):
            g = gaps(line)
            if len(line) >= 2 and any(s > usual for s in g) and _at_both_ends(line, size):
                out.append(t)
                break
    return out


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
    tried = [(8, 8), (8, 12), (12, 8), (h, w + h), (w, h), (7, 9), (6, 6), (4, 8)]
    return [g for g in dict.fromkeys(tried) if g != (h, w) and g[0] * g[1] <= 150]


__all__ = ["Field", "contiguous_blocks", "field_of", "gaps", "other_grids", "partition", "wrapped"]
