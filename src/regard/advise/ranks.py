"""What each of several devices holds and sends when they share every sequence (sequence parallelism), as formulas.

Axes: P ranks, B samples, T tokens of the whole sequence, E channels, G key-value heads, D channels of a head.
Sources: all-to-all, Jacobs et al. 2023, arXiv:2309.14509; keys passed on, Liu et al. 2023, arXiv:2310.01889.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from regard.advise.step import walk
from regard.advise.work import Work


@dataclass(frozen=True)
class Ranks:
    """Of one rank.

    Attributes:
        ranks: P.
        peak: Bytes at the peak, with T / P tokens of each sample; every rank holds all weights.
        all_to_all: Bytes that a rank sends in one call of all layers: queries, keys, values and output change from tokens to heads and
            back, (P - 1) / P of each; None where P does not divide the heads.
        passed_on: Bytes that a rank sends in one call of all layers where keys and values go around, (P - 1) parts of them.
        factor: A training step sends so many times as much: gradients go the way back.
    """

    ranks: int
    peak: int
    all_to_all: int | None
    passed_on: int
    factor: int


def of_ranks(work: Work, way: str) -> Ranks:
    """Share the sequences of the work among its ranks."""
    P = work.ranks
    one = replace(work, length=work.length // P, ranks=1)
    held = walk(one, way).peak if way != "open" else walk(one, way).peak + _wide_scores(work, one)
    both = 2 * one.unit + 2 * one.shared_unit
    fits = work.heads % P == 0 and work.shared % P == 0
    return Ranks(
        P,
        held,
        work.layers * both * (P - 1) // P if fits else None,
        work.layers * 2 * one.shared_unit * (P - 1),
        2 if work.way == "train" else 1,
    )


def _wide_scores(work: Work, one: Work) -> int:
    """What the open form holds more: a rank's queries meet the keys of all ranks, not its own only."""
    copies = 2 + (work.layers if work.way == "train" else 0)
    return copies * work.batch * work.heads * one.length * (work.length - one.length) * work.exact
