"""Sizes of arguments that have shapes of their own, put right by what error messages say.

Every axis starts with a size that no other axis has, so that a number in a message says which axis is meant.
Axes: B items, L tokens, D channels, 1 one for all items, P positions of the queries, R distances between them (2 P - 1).
"ids" is (B, L) of integers, "id" one for each item; "1BD" is the state that torch's recurrent layers
take, and "BLLD" says something of every pair of tokens.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from regard.checks.asked import mismatch, reached_beyond, width_viewed
from regard.checks.call import Call, Source
from regard.checks.companions import NARROW, companion
from regard.checks.joined import Sums, odd_width, remainders, split
from regard.checks.layout import Layout
from regard.checks.roles import call_role

LENGTHS = (7, 9, 11, 10, 14, 15)
WIDTHS = (13, 17, 19, 23, 29, 31)
ITEMS = 3
LARGEST = 2048


@dataclass(frozen=True)
class Argument:
    """Parameters that get the same tensor, and the layouts to try for it, the likeliest first."""

    names: tuple[str, ...]
    layouts: tuple[str, ...]


@dataclass
class Shapes:
    """One layout for each argument, and the size of each axis as far as it is known.

    size: (argument, axis letter) -> size; axes that must be equal hold equal numbers and change together.
    settled: axes whose size a layer asked for.
    """

    arguments: Sequence[Argument]
    layouts: Sequence[str]
    vocabulary: int | None = None
    size: dict[tuple[int, str], int] = field(default_factory=dict)
    settled: set[tuple[int, str]] = field(default_factory=set)
    sums: Sums[tuple[int, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        for i, layout in enumerate(self.layouts):
            if "L" in layout or layout == "ids":
                self.size[i, "L"] = LENGTHS[i % len(LENGTHS)]
            if "D" in layout:
                self.size[i, "D"] = WIDTHS[i % len(WIDTHS)]

    def repair(self, error: str) -> bool:
        """Put right what the message names; False where it names nothing that can be put right."""
        if "index out of range" in error and self.vocabulary is not None:
            self.vocabulary //= 2
            return self.vocabulary >= 2
        viewed = width_viewed(error, [n for k, n in self.size.items() if k[1] == "D" and k not in self.settled])
        if viewed is not None and viewed[1] <= LARGEST:
            return self._set([k for k in self._free(viewed[0]) if k[1] == "D"], viewed[1])
        found = self._shorter(error) or mismatch(error)
        if found is None or max(found[:2]) > LARGEST or min(found[:2]) < 1:
            return False
        got, want, either = found
        if not either:
            return self._set(self._free(got), want) or self._add(got, want)
        mine, other = self._of(got), self._of(want)
        if mine and other:  # two arguments that must agree
            if {axis for _, axis in mine} != {axis for _, axis in other}:
                return False
            return self._tie(other, got, mine) or self._tie(mine, want, other)
        if ITEMS in (got, want):
            return False  # tokens that stand where items belong
        if mine or other:
            return self._set(self._free(got if mine else want), want if mine else got)
        return self._add(got, want) or self._add(want, got)

    def _shorter(self, error: str) -> tuple[int, int, bool] | None:
        """Places of one argument's tokens are looked up in another, which has fewer: two lengths that must agree."""
        beyond = reached_beyond(error)
        longer = [n for (_, a), n in self.size.items() if a == "L" and beyond is not None and n > max(beyond)]
        return (beyond[1], min(longer), True) if beyond is not None and longer else None

    def _of(self, number: int) -> list[tuple[int, str]]:
        return [k for k, n in self.size.items() if n == number]

    def _free(self, number: int) -> list[tuple[int, str]]:
        return [k for k in self._of(number) if k not in self.settled]

    def _set(self, keys: list[tuple[int, str]], number: int) -> bool:
        self.size |= dict.fromkeys(keys, number)
        self.settled |= set(keys)
        self.size |= remainders(self.sums, self.size, self.settled)
        return bool(keys)

    def _tie(self, keys: list[tuple[int, str]], number: int, to: list[tuple[int, str]]) -> bool:
        if set(keys) & self.settled:
            return False
        self.size |= dict.fromkeys(keys, number)
        if set(to) & self.settled:
            self.settled |= set(keys)
        return True

    def _add(self, got: int, want: int) -> bool:
        """A size that no argument has may be a sum: the first channels of unknown number take the difference."""
        free = [k for k in self.size if k[1] == "D" and k not in self.settled]
        if odd := odd_width(self.size, free, got):
            return self._set(odd, want)
        keys = [k for k in free if self.size[k] + want - got > 1 and self.size[k] < got]
        if not keys:
            parts = split(self.size, free, got, want) or {}
            self.size |= parts
            self.sums += [(tuple(parts), want)] if parts else []
            return bool(parts)
        self.size[keys[0]] += want - got
        return True

    @property
    def tied(self) -> bool:
        """Do two streams of features have one length?"""
        wide = [
            self.size[i, "L"] for i, layout in enumerate(self.layouts) if layout == "BLD" and self.size[i, "D"] > NARROW
        ]
        return len(set(wide)) < len(wide)

    def calls(self) -> Iterator[Call]:
        """Ways to tell the query, the keys and their companions apart, the likeliest first; nothing where no argument has tokens."""
        tokens = [i for i, layout in enumerate(self.layouts) if layout in ("BLD", "ids")]
        if not tokens:
            return
        apart = {self.size[i, "L"] for i in tokens}
        if len(apart) == 1:
            main = max(tokens, key=lambda i: (self._width(i), self._is(i, "self", "query"), -i))
            yield self._call({"x": main})
            if len(tokens) == 1 and self.layouts[main] == "BLD":
                vectors = [i for i, layout in enumerate(self.layouts) if layout == "BD"]
                for i in sorted(vectors, key=lambda i: not self._is(i, "query", "self")):
                    yield self._call({"query": i, "context": main})
            return
        pairs = [(a, b) for a, b in itertools.permutations(tokens, 2) if self.size[a, "L"] != self.size[b, "L"]]
        pairs.sort(key=lambda p: (not self._is(p[0], "query", "self"), not self._is(p[1], "context", "key", "value")))
        for a, b in pairs:
            yield self._call({"query": a, "context": b})

    def _width(self, i: int) -> int:
        return LARGEST if self.layouts[i] == "ids" else self.size[i, "D"]

    def _is(self, i: int, *roles: str) -> bool:
        return call_role(self.arguments[i].names[0]) in roles

    def _call(self, parts: dict[str, int]) -> Call:
        """parts: source -> argument; every other argument becomes a companion."""
        sources = {source: self._source(i) for source, i in parts.items()}
        arguments = {name: source for source, i in parts.items() for name in self.arguments[i].names}
        fixed = {}
        for i, argument in enumerate(self.arguments):
            if i not in parts.values():
                length = self.size.get((i, "L"))
                along = next((s for s, j in parts.items() if self.size.get((j, "L")) == length), None)
                made = companion(
                    self.layouts[i], self.size.get((i, "D"), 1), along or length, next(iter(parts)), argument.names[0]
                )
                fixed |= dict.fromkeys(argument.names, made)
        return Call(sources, arguments, fixed, query=next(iter(parts)))

    def _source(self, i: int) -> Source:
        layout = self.layouts[i]
        grid = (self.size[i, "L"],) if (i, "L") in self.size else ()
        if layout == "ids":
            return Source(Layout("BL"), ITEMS, grid, 1, vocabulary=self.vocabulary)
        return Source(Layout(layout), ITEMS, grid, self.size[i, "D"])
