"""A call in which every required argument has a form of its own (ids, states, masks, places, edges), found by what runs further.

Each failed call says how many functions of torch ran and which arguments the last of them were computed from. Those get another
form, and what comes furthest is followed first.
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch

from regard.checks import forms as F
from regard.checks.asked import mismatch
from regard.checks.attempt import Failure, attempt_call, is_finite, runs_with_fewer
from regard.checks.call import Call
from regard.checks.form_names import STATE, levels, options
from regard.checks.forms import Form
from regard.checks.forms_apart import HIDDEN_SHAPE, MASKING, Guess, items_asked, maps_of, numbers_of
from regard.checks.plan import Signature
from regard.checks.signatures import signature_of
from regard.checks.sizes import widths
from regard.checks.subject import Subject, describe_error, invoke, line_in, untouched_globals
from regard.checks.touches import Touches

REPAIRS = 12  # of one choice of forms
ITEMS = (3, 5, 6)  # a batch that is no other size of the module, where one of them is none
BOTH_WAYS = (("BLD", "LBD"), ("BL", "LB"), ("B1", "1B"))
TURNED = {(k, a): Form(k, b) for k in ("float", "ids") for a, b in BOTH_WAYS if k == "ids" or a == "BLD"}
FIRST = 1 << 20  # further than any call comes
OTHERS = 3  # choices whose neighbours are tried where a call runs with two streams of one length
WHOLE = ("places", "ids", "edges", "levels", "starts", "lengths", "zero")
PATIENCE = 150  # calls that come no further, after which fewer items are tried


def infer_forms(subject: Subject, signature: Signature, errors: list[Failure], end: float) -> Call | None:
    """The first call that runs before the processor's clock shows `end`; reasons of failures go to `errors`."""
    names = [n for n in signature.required if n not in signature.options and not n.startswith("*")]
    if not names or not subject.is_module:
        return None
    known = signature_of(subject.forward).parameters
    given = [*signature.cache_positions, *signature.positions, *signature.lengths, *signature.extra_streams]
    optional = [n for n in known if n in given and n not in names and known[n].default is None]
    for chosen in (names, [*names, *optional]) if optional else (names,):  # what is optional in name only comes second
        call = _Search(subject, signature, chosen, errors, end).found()
        if call is not None:
            return call
    return None


def time_first(subject: Subject, signature: Signature, call: Call, seconds: float) -> Call | None:
    """The same arguments, of which all that lay batch first in `call`, streams and what goes with them, lie sequence first."""
    generator = torch.Generator().manual_seed(1)
    given = call.lay_out({n: s.sample(generator) for n, s in call.sources.items()}, subject.dtype)
    names = [n for n in signature.required if n in given and n not in signature.options and not n.startswith("*")]
    if not names or not subject.is_module:
        return None
    search = _Search(subject, signature, names, [], time.process_time() + seconds)
    plain = {n: x for n, x in given.items() if isinstance(x, torch.Tensor) and x.ndim == 3 and x.is_floating_point()}
    start = [Form("float", "LBD") if n in plain else search.options[n][0] for n in names]
    return search._try(tuple(TURNED.get((f.kind, f.axes), f) for f in start), search.items, []) or search.tied


def watched(subject: Subject, call: Call) -> tuple[Touches, Exception | None]:
    """One call on the copy for trials: what became of its arguments, and how it failed."""
    generator = torch.Generator().manual_seed(1)
    tokens = {n: s.sample(generator) for n, s in call.sources.items()}
    kwargs = call.lay_out(tokens, subject.dtype)
    seen, module = Touches(kwargs), subject.trial()
    try:
        with untouched_globals(subject.seed), torch.no_grad(), seen:
            invoke(module, kwargs)
    except Exception as error:
        return seen, error
    return seen, None


def streams_that_are_added(subject: Subject, call: Call) -> set[str]:
    """Arguments that a call takes for streams, and that are added to scores as they are: masks in disguise."""
    added = watched(subject, call)[0].added
    return {n for n, s in call.arguments.items() if added.get(n) == 4 or (n in added and call.sources[s].width == 1)}


class _Search:
    """Choices of forms, the furthest first."""

    def __init__(
        self, subject: Subject, signature: Signature, names: list[str], errors: list[Failure], end: float
    ) -> None:
        self.subject, self.signature, self.names, self.errors, self.end = subject, signature, names, errors, end
        self.fixed = {n: signature.options[n] for n in signature.required if n in signature.options}
        self.options = {n: list(options(subject, signature, n)) for n in names}
        self.vocabulary: dict[str, int] = {}
        self.taken = numbers_of(subject.pristine)
        self.levels, self.maps = levels(subject), maps_of(subject.pristine)
        self.seen: set[tuple[tuple[Form, ...], int]] = set()
        self.count = itertools.count()
        unpacked = any(STATE.fullmatch(n.lower()) for n in names)  # three items would pass for a state of three parts
        self.items = next((n for n in ITEMS[unpacked:] if n not in self.taken), ITEMS[-1] if unpacked else ITEMS[0])
        self.furthest, self.idle = -1, 0  # functions of torch in the best call, tries since then
        self.tied: Call | None = (
            None  # runs, with two streams of one length: one may be a vector that met the tokens by chance
        )
        self.settled: tuple[str, ...] = ()  # the axes of its arguments

    def found(self) -> Call | None:
        start = tuple(self.options[n][0] for n in self.names)
        queue: list[Any] = []
        call = self._try(start, self.items, queue)
        others = OTHERS
        while call is None and queue and time.process_time() < self.end and (self.tied is None or others > 0):
            others -= self.tied is not None
            mark, _, chosen, items, touched = heapq.heappop(queue)
            if self.idle > PATIENCE and items > 2 and (chosen, 2) not in self.seen:  # room for two, such as in a cache
                self.idle = 0
                call = self._try(chosen, 2, queue)
                if call is not None:
                    break
            for child, count in self._children(chosen, items, touched):
                call = self._try(child, count, queue)
                if call is not None or time.process_time() > self.end:
                    break
                if queue and queue[0][0] < mark:  # it came further: what is left of these waits
                    heapq.heappush(queue, (mark, next(self.count), chosen, items, touched))
                    break
        return call or self.tied

    def _children(
        self, chosen: tuple[Form, ...], items: int, touched: tuple[str, ...]
    ) -> Iterator[tuple[tuple[Form, ...], int]]:
        """Other forms of the arguments that the failure was about, then of the others."""
        order = [*(n for n in touched if n in self.names), *(n for n in self.names if n not in touched)]
        for name in order:
            at = self.names.index(name)
            for form in self.options[name]:
                if form.axes in ("B1D", "LBD") and self.settled[at : at + 1] == ("BLD",):
                    continue  # one token runs beside any number by broadcasting, and other axes as well as these
                child = (*chosen[:at], form, *chosen[at + 1 :])
                if (child, items) not in self.seen:
                    yield child, items

    def _try(self, chosen: tuple[Form, ...], items: int, queue: list[Any], width: int | None = None) -> Call | None:
        self.seen.add((chosen, items))
        guess = Guess(self.names, chosen, self.taken, items, self.vocabulary, self.levels, width, [*self.maps])
        best, touched = -1, ()
        for _ in range(REPAIRS):
            call = next((self._completed(c) for c in guess.calls()), None)
            if call is None or time.process_time() > self.end:
                return None
            seen, error = watched(self.subject, call)
            self._learn(seen)
            if error is None and guess.tied and self.tied is None:
                self.tied, self.settled = self._settled(guess), tuple(f.axes for f in chosen)
                best, touched = FIRST, ()
                break
            if error is None:
                return (
                    self._settled(guess)
                    if self._counting(chosen, seen) is None
                    else self._recounted(chosen, items, seen, queue, guess)
                )
            if seen.calls > best:
                best, touched = seen.calls, (*self._named(str(error), chosen), *seen.last)
            self.idle = 0 if best > self.furthest else self.idle + 1
            self.furthest = max(best, self.furthest)
            self.errors.append(Failure(describe_error(error), line_in(error, self.subject.forward)))
            if "index out of range" in str(error) and self._fewer_ids(seen):
                continue
            fewer = items_asked(str(error), items)
            if fewer is not None and (chosen, fewer) not in self.seen:
                return self._try(chosen, fewer, queue)
            if (turned := self._turned(str(error), chosen, items)) is not None:
                heapq.heappush(queue, (-best, next(self.count), chosen, items, touched))
                return self._try(turned, items, queue)
            if (other := self._time_first(str(error), chosen, seen, guess)) is not None:
                heapq.heappush(queue, (-best, next(self.count), chosen, items, touched))
                return self._try(other, items, queue)
            if not guess.repair(
                describe_error(error) if len(str(error)) < 150 else f"{type(error).__name__}: {error}", seen.last
            ):
                if width is None and "invalid for input of size" in str(
                    error
                ):  # it was viewed with the sizes of another
                    return self._try(chosen, items, queue, widths(self.subject.pristine)[0])
                break
        heapq.heappush(queue, (-best, next(self.count), chosen, items, touched))
        return None

    def _turned(self, error: str, chosen: tuple[Form, ...], items: int) -> tuple[Form, ...] | None:
        """All streams time-first, where a recurrent layer takes their tokens for items: its state should have so many."""
        found = HIDDEN_SHAPE.search(error)
        turned = tuple(TURNED.get((f.kind, f.axes), f) for f in chosen)
        if found is None or int(found.group(1).split(",")[-2]) == items or (turned, items) in self.seen:
            return None
        return turned

    def _time_first(self, error: str, chosen: tuple[Form, ...], seen: Touches, guess: Guess) -> tuple[Form, ...] | None:
        """All streams time-first, where lengths of the items meet the tokens."""
        found, items = mismatch(error), guess.items
        lengths = {n for n, f in zip(self.names, chosen) if f.kind == "lengths" and f.axes == "B"}
        turned = tuple(TURNED.get((f.kind, f.axes), f) for f in chosen)
        if found is None or not lengths & {*seen.last} or items not in found[:2] or (turned, items) in self.seen:
            return None
        return turned if {n for n in found[:2] if n != items} <= guess.lengths else None

    def _made_for(self, call: Call) -> bool:
        """Do buffers of a cache hold so many items and no other number, as the message for one less says?"""
        items = call.sources[call.query].batch
        fewer = call.but(sources={n: replace(s, batch=s.batch - 1) for n, s in call.sources.items()})
        return items_asked(str(watched(self.subject, fewer)[1]), items - 1) == items

    def _learn(self, seen: Touches) -> None:
        """Arguments that look up a table are ids below its size, and nothing else from now on."""
        for name, hides in seen.fills.items():
            if name in self.options and not any(f.kind in MASKING for f in self.options[name]):
                masks = (*F.HIDERS, *F.MASKS) if hides else (*F.MASKS, *F.HIDERS)
                self.options[name] = [*masks, *self.options[name]]
        for name, axes in seen.added.items():
            if axes == 4 and name in self.options:  # scores: what is added to them has their axes, or is broadcast
                known = self.options[name]
                masks = known if any(f.kind in MASKING for f in known) else [*F.MASKS, *known]
                self.options[name] = sorted(masks, key=lambda f: f.kind in MASKING and len(f.axes) != 4)
        for name, rows in [*seen.vocabulary.items(), *seen.indices.items()]:
            if name in self.options and rows > 0 and name not in self.vocabulary:
                self.vocabulary[name] = rows
                whole = [f for f in self.options[name] if f.kind in WHOLE]
                if whole or name in seen.vocabulary:
                    self.options[name] = [*whole, *(f for f in F.IDS if f not in whole)]

    def _counting(self, chosen: tuple[Form, ...], seen: Touches) -> int | None:
        """The place of an argument of plain numbers that is compared with counts: it is lengths."""
        return next((i for i, n in enumerate(self.names) if n in seen.counts and chosen[i].kind == "float"), None)

    def _recounted(
        self, chosen: tuple[Form, ...], items: int, seen: Touches, queue: list[Any], guess: Guess
    ) -> Call | None:
        at = self._counting(chosen, seen)
        assert at is not None
        for form in F.LENGTHS[:2]:
            child = (*chosen[:at], form, *chosen[at + 1 :])
            call = self._try(child, items, queue) if (child, items) not in self.seen else None
            if call is not None:
                self.signature.lengths += [self.names[at]] * (self.names[at] not in self.signature.lengths)
                return call
        return self._settled(guess)

    def _fewer_ids(self, seen: Touches) -> bool:
        for name in seen.last:
            if self.vocabulary.get(name, 0) > 2:
                self.vocabulary[name] //= 2
                return True
        return False

    def _named(self, error: str, chosen: tuple[Form, ...]) -> tuple[str, ...]:
        """The arguments of a kind that a message of Python speaks of."""
        kinds = {"tuple": lambda f: f.parts, "NoneType": lambda f: f.kind == "none", "'int'": lambda f: f.kind == "zero", "list": lambda f: f.kind in ("listed", "pairs")}  # fmt: skip
        return tuple(
            n for word, is_one in kinds.items() if word in error for n, f in zip(self.names, chosen) if is_one(f)
        )

    def _completed(self, call: Call) -> Call:
        return call.but(fixed={**self.fixed, **call.fixed})

    def _settled(self, guess: Guess) -> Call | None:
        """Of the ways to name the query, the first whose output follows it; else the first that runs."""
        first = None
        for call in guess.calls():
            found = attempt_call(self.subject, self._completed(call), self.errors)
            if found is None or found.arguments != call.arguments or not is_finite(self.subject, found):
                continue
            if guess.items > 1 and not runs_with_fewer(self.subject, found) and not self._made_for(found):
                continue
            first = first or found
            if found.follows:
                first = found
                break
        hiding = [n for n, f in zip(guess.names, guess.forms) if f.kind in MASKING and n not in self.signature.masks]
        self.signature.masks += hiding if first is not None else []
        return first
