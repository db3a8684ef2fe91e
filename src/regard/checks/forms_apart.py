"""A form for every required argument and a size for each of its axes: from these the calls that they allow.

Every axis starts with a size that nothing else has, so that a number in an error message says which axis is meant.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from regard.checks import sizes
from regard.checks.asked import VIEW, groups_asked, mismatch, width_viewed
from regard.checks.call import Call
from regard.checks.companions import NARROW
from regard.checks.forms import LEVELS, Form, made
from regard.checks.joined import Sums, odd_width, remainders, split
from regard.checks.roles import call_role

LENGTHS = (7, 9, 11, 10, 14, 15, 18, 21, 22, 25, 26, 27)
SIDES = (4, 5, 6, 8, 12, 16, 20)  # of what lies in two or three directions: their product is the number of tokens
WIDTHS = (13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59)
LARGEST, MOST_TOKENS, MOST_PATCHES = 2048, 64, 64  # channels, tokens in one direction, and those of a map
MOST_ITEMS = 8
HIDDEN_SHAPE = re.compile(r"size \(([\d, ]+)\), got \[([\d, ]+)\]")
PIXELS = re.compile(r"value|src|source|input|memory|feat|flat|context")
MASKING = ("seen", "hidden", "added", "ones", "count")
Axis = tuple[str, str]  # argument, letter


@dataclass
class Guess:
    """names: the arguments; forms: one for each; size: what is known of the axes, which change together where they are equal."""

    names: Sequence[str]
    forms: Sequence[Form]
    taken: set[int]
    items: int = 3
    vocabulary: dict[str, int] = field(default_factory=dict)
    levels: int = 2
    width: int | None = None  # of all streams; else each has its own
    maps: list[tuple[int, int]] = field(default_factory=list)  # other sizes of maps to try
    size: dict[Axis, int] = field(default_factory=dict)
    settled: set[Axis] = field(default_factory=set)
    sums: Sums[Axis] = field(default_factory=list)

    def __post_init__(self) -> None:
        lengths = iter([n for n in LENGTHS if n not in self.taken] or LENGTHS)
        sides = iter([n for n in SIDES if n not in self.taken and n != self.items] or SIDES)
        widths = iter([n for n in WIDTHS if n not in self.taken] or WIDTHS)
        for name, form in zip(self.names, self.forms):
            for letter in dict.fromkeys(form.axes):
                if letter in "HW" or (letter == "T" and form.kind in ("float", "ids")):
                    self.size[name, letter] = next(sides, 3)
                elif letter in "LT":
                    self.size[name, letter] = next(lengths, 33)
                elif letter == "D":
                    self.size[name, letter] = self.width or next(widths, 61)
                elif letter in "NV":
                    self.size[name, letter] = self.levels if letter == "V" else 1
        if any(f.kind in ("levels", "pairs") for f in self.forms):
            self._fill_levels()
        streams = [n for n, f in zip(self.names, self.forms) if f.has_tokens]
        for name, form in zip(self.names, self.forms):
            if (
                form.kind in ("places", "table", "turns", "points")
                and "L" in form.axes
                and streams
                and "L" in dict(zip(self.names, self.forms))[streams[0]].axes
            ):
                self.size[name, "L"] = self.size[streams[0], "L"]  # one for each token of the first stream
            elif form.kind in MASKING and len(streams) == 1 and (streams[0], "L") in self.size:
                self.size |= {(name, a): self.size[streams[0], "L"] for a in form.axes if a in "LT"}

    def _fill_levels(self) -> None:
        """The stream that is read holds the pixels of all levels, one after the other."""
        wide = [n for n, f in zip(self.names, self.forms) if f.kind == "float" and f.axes == "BLD"]
        read = [n for n in wide if PIXELS.search(n.lower())] or wide[-1:]
        if read:
            self.size[read[-1], "L"] = sum(h * w for h, w in LEVELS[: self.levels])
            self.settled.add((read[-1], "L"))

    def repair(self, error: str, touched: Sequence[str]) -> bool:
        """Put right what the message names, or take maps of another size; False where neither can be done."""
        return self._repaired(error, touched) or self._other_map(error, touched)

    def _other_map(self, error: str, touched: Sequence[str]) -> bool:
        """Maps of another size, where a kernel does not fit, or a table of so many patches."""
        found = mismatch(error)
        patches = found is not None and found[2] and max(found[:2]) <= MOST_PATCHES
        if "greater than actual input size" not in error and not patches:
            return False
        names = [n for n in touched if {(n, "H"), (n, "W")} <= self.size.keys()]
        if not names or not self.maps:
            return False
        (rows, columns), *self.maps = self.maps
        self.size |= {(n, a): side for n in names for a, side in (("H", rows), ("W", columns))}
        return True

    def _repaired(self, error: str, touched: Sequence[str]) -> bool:
        if self._state_asked(error, touched) or self._view_asked(error, touched) or self._other_viewed(error):
            return True
        if (groups := groups_asked(error)) is not None:  # the next message says which multiple
            self.size |= (grouped := {k: groups[0] * groups[1] for k in self._free(groups[0]) if k[1] == "D"})
            return bool(grouped)
        found = mismatch(error)
        if found is None or max(found[:2]) > LARGEST or min(found[:2]) < 1:
            return False
        got, want, either = found
        if not either:  # a layer reads channels: plain numbers are none
            plain = {n for n, f in zip(self.names, self.forms) if f.kind == "float" and f.axes == "BL"}
            asked = [k for k in self._free(got) if k[0] not in plain and k[1] not in "THW"]
            return self._set(asked, want) or (not self._free(got) and self._add(got, want))
        mine, other = self._of(got), self._of(want)
        if mine and other:
            if _kinds(mine) != _kinds(other):  # tokens are no channels
                return False
            return self._tie(other, got, mine) or self._tie(mine, want, other)
        if self.items in (got, want):
            return False  # tokens that stand where items belong
        if mine or other:
            free, number = self._free(got if mine else want), want if mine else got
            return self._set([k for k in free if not self._places(k[0])], number)
        return self._add(got, want) or self._add(want, got)

    def _places(self, name: str) -> bool:
        """One entry for each token of a stream, so that no other size asks for its length."""
        return self.forms[list(self.names).index(name)].kind in ("places", "points")

    def _state_asked(self, error: str, touched: Sequence[str]) -> bool:
        """A recurrent layer says the whole shape that its state must have."""
        found = HIDDEN_SHAPE.search(error)
        if not found:
            return False
        want, got = ([int(n) for n in group.split(",") if n.strip()] for group in found.groups())
        for name, form in zip(self.names, self.forms):
            if form.kind == "state" and name in touched and [self._sized(name, a) for a in form.axes] == got:
                pairs = [((name, a), n) for a, n in zip(form.axes, want) if a in "ND"]
                changed = any(self.size[k] != n for k, n in pairs)
                self.size |= dict(pairs)
                return changed
        return False

    def _view_asked(self, error: str, touched: Sequence[str]) -> bool:
        """An argument that is viewed in a shape of known sizes has those: its free axes take what is left of them."""
        found = VIEW.search(error)
        if not found:
            return False
        want = [int(n) for n in found.group(1).split(",")]
        if min(want) < 1:
            return False
        for name in touched[:1]:
            free = [(n, a) for (n, a) in self.size if n == name and (n, a) not in self.settled]
            for numbers in itertools.permutations(dict.fromkeys(n for n in want if n > 1), len(free)):
                tried = {**self.size, **dict(zip(free, numbers))}
                form = self.forms[list(self.names).index(name)]
                total = 1
                for a in form.axes:
                    total *= tried.get((name, a), self._sized(name, a))
                if total == _product(want) and tried != self.size:
                    self.size = tried
                    self.settled |= set(free)
                    return True
        return False

    def _other_viewed(self, error: str) -> bool:
        """What is computed from one argument is viewed with the width of another, which must fit."""
        viewed = width_viewed(error, [n for k, n in self.size.items() if k[1] == "D" and k not in self.settled])
        if viewed is None or viewed[1] > LARGEST:
            return False
        return self._set([k for k in self._free(viewed[0]) if k[1] == "D"], viewed[1])

    def _sized(self, name: str, letter: str) -> int:
        return {"B": self.items, "1": 1, "2": 2, "4": 4}.get(letter) or self.size.get((name, letter), 1)

    def _of(self, number: int) -> list[Axis]:
        return [k for k, n in self.size.items() if n == number and k[1] not in "NV"]

    def _free(self, number: int) -> list[Axis]:
        return [k for k in self._of(number) if k not in self.settled]

    def _set(self, keys: list[Axis], number: int) -> bool:
        if number > MOST_TOKENS and not _kinds(keys) <= {True}:
            return False
        self.size |= dict.fromkeys(keys, number)
        self.settled |= set(keys)
        self.size |= remainders(self.sums, self.size, self.settled)
        return bool(keys)

    def _tie(self, keys: list[Axis], number: int, to: list[Axis]) -> bool:
        if set(keys) & self.settled:
            return False
        self.size |= dict.fromkeys(keys, number)
        if set(to) & self.settled:
            self.settled |= set(keys)
        return True

    def _add(self, got: int, want: int) -> bool:
        """A size that no argument has may be several times one, or a sum of which the first free channels take the difference."""
        free = [k for k in self.size if k[1] == "D" and k not in self.settled]
        if odd := odd_width(self.size, free, got):
            return self._set(odd, want)
        for n in dict.fromkeys(self.size[k] for k in free):
            times, rest = divmod(got, n)
            if rest == 0 and times > 1 and want % times == 0:
                return self._set([k for k in free if self.size[k] == n], want // times)
        sums = [k for k in free if self.size[k] + want - got > 1 and self.size[k] < got]
        if not sums:
            parts = split(self.size, free, got, want) or {}
            self.size |= parts
            self.sums += [(tuple(parts), want)] if parts else []
            return bool(parts)
        together = [k for k in free if self.size[k] == self.size[sums[0]]]
        self.size |= dict.fromkeys(together, self.size[sums[0]] + (want - got) // len(together))
        return (want - got) % len(together) == 0

    @property
    def lengths(self) -> set[int]:
        """How many tokens the streams have."""
        return {self.size[n, "L"] for n, f in zip(self.names, self.forms) if f.has_tokens and "L" in f.axes}

    @property
    def tied(self) -> bool:
        """Do two streams of features have one length?"""
        wide = [
            self.size[n, "L"]
            for n, f in zip(self.names, self.forms)
            if f.kind == "float" and f.axes in ("BLD", "LBD") and self.size[n, "D"] > NARROW
        ]
        return len(set(wide)) < len(wide)

    def calls(self) -> Iterator[Call]:
        """Ways to tell the query, the keys and what goes with them apart, the likeliest first."""
        forms = dict(zip(self.names, self.forms))
        tokens = [n for n in self.names if forms[n].has_tokens]
        vectors = [n for n in self.names if forms[n].is_stream and n not in tokens]
        if not tokens:
            return
        if len({self._tokens(n, forms[n]) for n in tokens}) == 1:
            main = max(tokens, key=lambda n: (self._weight(n, forms[n]), call_role(n) in ("self", "query")))
            yield self._call({"x": main}, forms)
            for vector in sorted(vectors, key=lambda n: call_role(n) not in ("query", "self")):
                if "B" in forms[vector].axes and "B" in forms[main].axes:
                    yield self._call({"query": vector, "context": main}, forms)
            return
        pairs = [
            (a, b)
            for a, b in itertools.permutations(tokens, 2)
            if self._tokens(a, forms[a]) != self._tokens(b, forms[b])
        ]
        for a, b in sorted(pairs, key=lambda p: self._order(p, forms)):
            yield self._call({"query": a, "context": b}, forms)

    def _tokens(self, name: str, form: Form) -> int:
        return _product([self.size[name, a] for a in form.directions])

    def _order(self, pair: tuple[str, str], forms: dict[str, Form]) -> tuple[int, ...]:
        """Feature streams before lists of plain numbers, then by what the names say."""
        a, b = pair
        return (
            -self._weight(a, forms[a]) - self._weight(b, forms[b]),
            int(call_role(a) not in ("query", "self")),
            int(call_role(b) not in ("context", "key", "value")),
        )

    def _weight(self, name: str, form: Form) -> int:
        """The more a token can say, the more likely it is what attends."""
        if form.kind == "ids":
            return 2 + (self.vocabulary.get(name, 2) > 8)
        return 1 if form.axes == "BL" else 3 if self.size[name, "D"] > 3 else 2

    def _call(self, parts: dict[str, str], forms: dict[str, Form]) -> Call:
        """parts: source -> argument; every other argument is made up."""
        sources, fixed, query = {}, {}, next(iter(parts))
        for source, name in parts.items():
            size = {a: self.size.get((name, a), 1) for a in forms[name].axes}
            sources[source] = forms[name].source(size, self.items, self.vocabulary.get(name, 2))
        lengths = {source: sources[source].tokens for source, name in parts.items() if forms[name].has_tokens}
        for name in self.names:
            if name in parts.values():
                continue
            form = forms[name]
            size = {a: self._sized(name, a) for a in form.axes if a not in "B"}
            along = {a: s for a in form.axes if a in "LT" for s, n in lengths.items() if n == size[a]}
            if "E" in form.axes:
                along["L"] = query
            if form.kind in ("lengths", "listed"):
                size["S"] = self._counted(name, forms)
                along.update([("S", s) for s, n in lengths.items() if n == size["S"]])
            items = self.items if any("B" in forms[n].axes for n in parts.values()) else 0
            fixed[name] = made(form, size, along, items, query, self.vocabulary.get(name))
        fed = {name: source for source, name in parts.items()}
        return Call(sources, fed, fixed, query=query)

    def _counted(self, name: str, forms: dict[str, Form]) -> int:
        """How many tokens the stream has that lengths are of: the one whose name they share, else the last one."""
        stem = re.sub(r"_?(seq_?|valid_?)?(lens?|lengths?|sizes?)$", "", name.lower())
        tokens = [n for n in self.names if forms[n].has_tokens]
        named = [n for n in tokens if stem and (n.lower().startswith(stem) or stem.startswith(n.lower()))]
        return self._tokens((named or tokens)[-1], forms[(named or tokens)[-1]])


def _kinds(axes: Sequence[Axis]) -> set[bool]:
    return {letter in "DN" for _, letter in axes}


def _product(numbers: Sequence[int]) -> int:
    out = 1
    for n in numbers:
        out *= n
    return out


def numbers_of(module: Any) -> set[int]:
    """Every size of a parameter or buffer, and every small number that a part keeps."""
    out: set[int] = set()
    for part in module.modules() if isinstance(module, nn.Module) else ():
        for t in [*part._parameters.values(), *part._buffers.values()]:
            out |= set(t.shape) if t is not None else set()
        out |= {v for v in vars(part).values() if type(v) is int}
    return out


def items_asked(error: str, items: int) -> int | None:
    """How many items buffers are made for, where a message holds two shapes that differ in the items alone.

    >>> items_asked("value tensor of shape [3, 1, 7] cannot be broadcast to indexing result of shape [2, 1, 7]", 3)
    2
    """
    lists = [[int(n) for n in text.split(",")] for text in re.findall(r"\[(\d+(?:, \d+)*)\]", error)]
    for a, b in itertools.permutations(lists, 2):
        if len(a) == len(b):
            apart = {(m, n) for m, n in zip(a, b) if m != n}
            if len(apart) == 1 and (pair := apart.pop())[0] == items and 0 < pair[1] <= MOST_ITEMS:
                return pair[1]
    return None


def maps_of(module: Any) -> list[tuple[int, int]]:
    """Sizes of maps for patches of 8: one of no special size, then squares of the numbers that the module knows."""
    known = [n for n in dict.fromkeys(sizes.integers(module)) if 12 <= n <= 64]
    return [(16, 24), *((n, n) for n in known[:3])]
