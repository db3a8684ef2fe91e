"""Do the rows of an attention stand for tokens, or for pieces of memory that were cut without moving an axis?

(B, C, H, W) viewed as (B, H * W, C) runs, and row r is then the r-th piece of C numbers in memory: some pixels of one channel.
Row r is asked twice: how far does it move when that piece is replaced, and how far when all the rest is? A row that stands
for a token answers the second question louder, whatever norm stands before it.

Axes: N tokens of F channels; a piece is a (N, F) bool of what belongs to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.checks.call import Call
from regard.checks.case import Case
from regard.checks.sites import Rows, recorded, watch
from regard.intercept import Site

LAYOUTS = ("BDHW", "BDL", "BHWD", "BLD")
PROBED = 6  # rows that are asked
FEWEST = 3
LITTLE = 0.25  # of the channels of a token
EACH, MEAN = 1.2, 0.6  # the rest of the input may move a row so much of what its piece does: norms pass some of it on
LARGER = {1: ((61,), (97,)), 2: ((8, 12), (7, 9))}  # other lengths and maps
Piece = Callable[[int], Tensor]


@dataclass(frozen=True)
class Scramble:
    """What was found: the site, how far the rest moves a row relative to its piece, and of how many tokens a row is made."""

    site: Site
    rest: float
    tokens: int


def scrambled(case: Case, sources: list[dict[str, Rows]]) -> Scramble | None:
    """A site with as many keys as tokens whose keys are pieces of memory; None where they are tokens, or neither."""
    source = case.call.sources[case.call.query]
    if case.call.is_cross or source.layout.axes not in LAYOUTS or source.patch != 1 or source.vocabulary is not None:
        return None
    sites = watch(case, case.sample()).sites
    for at, (site, rows) in enumerate(zip(sites, sources)):
        mixed = "key" in rows and bool((rows["key"].source == -1).any()) and not bool((rows["key"].source >= 0).any())
        if mixed and site.key is not None and site.key.shape[-2] == source.tokens:
            made = site.key.numel() // (source.batch * source.tokens)  # channels of all heads
            for call, piece in _pieces(case, made):
                found = _answers(case, call, at, piece)
                if found is not None:
                    return found
    return None


def _pieces(case: Case, made: int) -> Iterator[tuple[Call, Piece]]:
    """What row r holds when memory is read with tokens and channels exchanged, before or after a layer over channels.

    Behind such a layer a piece is a run of tokens, and all there are where it is as long as the map: then a larger map is taken.
    """
    source = case.call.sources[case.call.query]
    n, width = source.tokens, source.width
    channels_first = source.layout.axes[1] == "D"
    flat = torch.arange(n * width)
    memory = flat.reshape(width, n).T if channels_first else flat.reshape(n, width)  # (N, F): where each number lies
    yield case.call, lambda row: (memory // width == row) if channels_first else (memory % n == row)
    for wide in sorted({k * c for k in (1, 2, 3) for c in (width, made)}) if channels_first else ():
        for call in _larger(case):
            if wide < call.sources[call.query].tokens and len(_strangers(call, _run(call, wide))) >= FEWEST:
                yield call, _run(call, wide)
                break


def _run(call: Call, wide: int) -> Piece:
    """Row r holds `wide` tokens, those where row r - 1 left off, round and round; all their channels."""
    source = call.sources[call.query]
    tokens = torch.arange(source.tokens)[:, None].expand(source.tokens, source.width)
    return lambda row: torch.isin(tokens, (row * wide + torch.arange(wide)) % source.tokens)


def _larger(case: Case) -> Iterator[Call]:
    """The call, then with more tokens."""
    source = case.call.sources[case.call.query]
    yield case.call
    for grid in LARGER[len(source.grid)] if len(source.grid) < 3 else ():
        yield case.call.but(sources={case.call.query: replace(source, grid=grid)})


def _strangers(call: Call, piece: Piece) -> list[int]:
    """Rows whose piece holds little of their own token."""
    return [r for r in range(call.sources[call.query].tokens) if float(piece(r)[r].double().mean()) <= LITTLE]


def _answers(case: Case, call: Call, at: int, piece: Piece) -> Scramble | None:
    """Do rows move with their piece, which holds little of their token, and hardly with all the rest?"""
    batch = case.sample(call=call)
    rows = _strangers(call, piece)
    shares = []
    try:
        site = watch(case, batch, call=call).sites[at]
        for row in rows[:: max(1, len(rows) // PROBED)]:
            inside = piece(row)
            own, rest = (_moves(case, call, at, site, where, row) for where in (inside, ~inside))
            if own < case.big or rest > EACH * own:
                return None
            shares.append(rest / own)
    except (RuntimeError, ValueError, IndexError, AssertionError):  # another size does not run, or runs another way
        return None
    if len(shares) < FEWEST or sum(shares) > MEAN * len(shares):
        return None
    return Scramble(site, sum(shares) / len(shares), int(piece(rows[0]).any(-1).sum()))


def _moves(case: Case, call: Call, at: int, site: Site, where: Tensor, row: int) -> float:
    """How far a key row of item 0 moves, relative to the rows' size, when the numbers at `where` are replaced."""
    moved = case.sample(call=call)
    x = moved[call.query]
    fresh = torch.randn(where.shape, generator=torch.Generator().manual_seed(700 + row), dtype=x.dtype)
    x[0] = torch.where(where, fresh, x[0])
    before, after = recorded(site.key), recorded(watch(case, moved, call=call).sites[at].key)
    change = (after.double() - before.double())[..., row, :].norm()
    return float(change / before.double()[..., row, :].norm().clamp_min(1e-12))
