"""Sequences as long as the map has rows that are runs of neighbours: (B, T, N, D) was viewed as (B * N, T, D).

Along the first axis of a map the tokens of one sequence lie N apart. A run of T neighbours goes over the end of a row, so that it
is neither a column nor a part of one row. Told apart by two maps: the runs grow with the number of rows and not with their length.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace

import torch

from regard.checks.case import Case
from regard.checks.sites import Rows, row_sources

OTHER = ((5, 6), (4, 7), (7, 4), (6, 5))  # rows and columns, of which neither divides the other


def straddled(case: Case, sources: list[dict[str, Rows]]) -> int | None:
    """The site whose sequences are such runs, on this map and on another; None where there is none."""
    source = case.call.sources[case.call.query]
    if case.call.is_cross or len(source.grid) != 2:
        return None
    found = _sites_of_runs(source.grid, sources)
    for grid in OTHER if found else ():
        if grid[0] == source.grid[0]:
            continue
        call = case.call.but(sources={n: replace(s, grid=grid) for n, s in case.call.sources.items()})
        case.facts["straddled", grid] = call  # rows are kept by the call's id
        with contextlib.suppress(Exception):  # a table of one size
            again = found & _sites_of_runs(grid, row_sources(case, call))
            return min(again, default=None)
    return None


def _sites_of_runs(grid: tuple[int, ...], sources: list[dict[str, Rows]]) -> set[int]:
    """Sites whose sequences have one entry for each row of the map, and hold the tokens of a piece of the raster."""
    rows, columns = grid
    if rows < 2 or columns % rows == 0 or rows % columns == 0:
        return set()
    return {i for i, found in enumerate(sources) if "key" in found and _runs(found["key"], rows, columns)}


def _runs(key: Rows, rows: int, columns: int) -> bool:
    if key.shape[-1] != rows:
        return False
    lines = key.source.reshape(-1, rows)
    lines = lines[(lines >= 0).all(-1)].unique(dim=0)  # the same for all heads
    if len(lines) < 2 * columns:  # of two items
        return False
    return bool((lines[:, :1] % rows == 0).all()) and torch.equal(lines, lines[:, :1] + torch.arange(rows))
