"""The edge of a map that fills no block: outputs in its last rows or columns depend on nothing, and on other maps none do."""

from __future__ import annotations

import contextlib

import torch

from regard.checks.case import Case, Verdict
from regard.checks.influence import Influence, influence

OTHER = ((6, 6), (8, 8), (4, 6), (8, 12), (12, 12))  # rows and columns that are multiples of usual blocks


def edge_of_map(case: Case, found: Influence) -> Verdict | None:
    """A question where that is so: maps of such sides may be outside of what the author promises, as 2 x 2 blocks are of 5 rows."""
    source = case.call.sources[case.call.query]
    if len(source.grid) != 2 or not found.square or found.sees.shape[0] != source.tokens:
        return None
    rows, columns = source.grid
    blind = (~found.sees.any(-1)).reshape(rows, columns)
    down, right = int(blind.all(1).sum()), int(blind.all(0).sum())
    edge = torch.zeros_like(blind)
    edge[rows - down :], edge[:, columns - right :] = True, True
    own = found.sees.diagonal().reshape(rows, columns)
    if not down + right > 0 or not torch.equal(blind, edge) or not torch.equal(~own, edge) or bool(edge.all()):
        return None
    whole = _whole(case)
    return None if whole is None else Verdict(
        "question",
        f"on a map of {rows} x {columns}, the last {down} rows and {right} columns of the output depend on nothing; on {whole[0]} x {whole[1]} every output depends on its input: have the sides to be multiples of a block?",
        kind="chunk-tail", measured=int(edge.sum()), allowed=0, example=f"a map of {rows} x {columns}",
        cause="rows and columns that fill no block are left out, and nothing is raised", fix="raise an error for such maps, or pad to a multiple of the block and mask",
    )  # fmt: skip


def _whole(case: Case) -> tuple[int, int] | None:
    """Another map on which every output depends on its own input."""
    name = case.call.query
    for h, w in OTHER:
        with contextlib.suppress(Exception):
            other = influence(case, tokens={name: h * w}, grids={name: (h, w)})
            if other.square and bool(other.sees.diagonal().all()):
                return h, w
    return None
