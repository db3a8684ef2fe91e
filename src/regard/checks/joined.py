"""Channels of several arguments that a forward joins: their sizes add up to what a layer asks for."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

Axis = TypeVar("Axis")
Sums = list[tuple[tuple[Axis, ...], int]]  # axes, and what their sizes add up to
SMALL = {2: ((3,), (2,), (1,)), 3: ((3, 2), (3, 1), (2, 1))}  # the sizes of all but the first of two or three


def split(size: Mapping[Axis, int], free: Sequence[Axis], got: int, want: int) -> dict[Axis, int] | None:
    """New sizes, no two alike, for two or three free axes that added up to `got` and have to add up to `want`.

    >>> split({"points": 13, "places": 17}, ["points", "places"], 30, 8)
    {'points': 5, 'places': 3}
    """
    for count, choices in SMALL.items():
        for axes in itertools.combinations(free, count):
            if sum(size[a] for a in axes) != got:
                continue
            for rest in choices:
                first = want - sum(rest)
                if first > 0 and first not in rest:
                    return dict(zip(axes, (first, *rest)))
    return None


def remainders(sums: Sums[Axis], size: Mapping[Axis, int], settled: Iterable[Axis]) -> dict[Axis, int]:
    """What is left for the last axis of a sum, where all others are settled."""
    known, out = set(settled), {}
    for axes, total in sums:
        free = [a for a in axes if a not in known]
        left = total - sum(size[a] for a in axes if a in known)
        if len(free) == 1 and left > 0:
            out[free[0]] = left
    return out


def odd_width(size: Mapping[Axis, int], free: Sequence[Axis], got: int) -> list[Axis]:
    """Free axes of an odd size, of which the halves that were joined have one less: waves of a place are so many pairs.

    >>> odd_width({"map": 13, "text": 17}, ["map", "text"], 12)
    ['map']
    """
    return [a for a in free if size[a] % 2 and size[a] - 1 == got]
