"""A call of several arguments that each have a shape of their own: a decoder's token, state and memory; points and features.

What is the query and what its keys follows from the lengths that stay apart, and from what the weights over tokens depend on.
The other arguments are companions (see `companions`).
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from regard.checks import sizes
from regard.checks.attempt import Failure, attempt_call, is_finite, runs_with_fewer
from regard.checks.call import Call
from regard.checks.plan import Signature, fixed_arguments
from regard.checks.roles import call_role
from regard.checks.shape_names import axis_names
from regard.checks.shapes_apart import Argument, Shapes
from regard.checks.signatures import signature_of
from regard.checks.subject import Subject

REPAIRS = 12  # of one choice of layouts
CHOICES = 64
STREAM = ("BLD", "BD", "1BD", "BL", "B", "BLLD")
NUMBERED = re.compile(r"(.*_)?(ids?|idx|index|indices|tokens?|items?|labels?|cats?|categor\w*|words?|target|input)")
VECTOR = ("BD", "BLD", "B")
TABLE = ("1PD", "1RD", "PD", "RD", "BLD")


def arguments_apart(subject: Subject, signature: Signature) -> list[list[Argument]]:
    """Ways to group the required tensor arguments, each group one tensor; nothing where there is only one of them."""
    if "*0" in signature.streams or not isinstance(subject.pristine, nn.Module):
        return []
    required = [
        n for n in signature.required if n in {*signature.streams, *signature.positions, *_unsized(subject, signature)}
    ]
    if len(required) < 2:
        return []
    triple = [n for n in required if call_role(n) in ("query", "key", "value")]
    groups = [[(n,) for n in required]]
    if len(triple) > 1:
        asks = [n for n in triple if call_role(n) == "query"]
        read = tuple(n for n in triple if n not in asks)
        rest = [(n,) for n in required if n not in triple]
        groups = [[tuple(triple), *rest], [*((n,) for n in asks), read, *rest]]
    return [
        [Argument(names, _layouts(subject, signature, names[0], i)) for i, names in enumerate(g)]
        for g in groups
        if len(g) > 1
    ]


def _unsized(subject: Subject, signature: Signature) -> list[str]:
    """Arguments named like a height or width that are not said to be numbers."""
    known = signature_of(subject.forward).parameters
    return [n for n in signature.sizes if known[n].annotation not in (int, tuple, "int", "tuple")]


def _layouts(subject: Subject, signature: Signature, name: str, place: int) -> tuple[str, ...]:
    module = subject.pristine
    options = TABLE if name in signature.positions else VECTOR if name in signature.sizes else STREAM
    first = next((m for m in module.modules() if next(m.parameters(recurse=False), None) is not None), None)
    if isinstance(first, nn.Embedding) and (place == 0 or NUMBERED.fullmatch(name.lower())):
        options = ("ids", "id", *options)
    ranks = {len(names) for names in axis_names(subject.forward, name)}
    said = tuple(o for o in options if {"ids": 2, "id": 1}.get(o, len(o)) in ranks)
    return said or options


def search(
    subject: Subject, signature: Signature, arguments: Sequence[Argument], errors: list[Failure], end: float
) -> Call | None:
    """The first call that runs, before the processor's clock shows `end`; reasons of failures go to `errors`."""
    choices = itertools.product(*(range(len(a.layouts)) for a in arguments))
    tied = None  # streams of one length: one of them may be a single vector that met the tokens by chance
    for choice in sorted(choices, key=sum)[:CHOICES]:
        layouts = [a.layouts[i] for a, i in zip(arguments, choice)]
        shapes = Shapes(arguments, layouts, sizes.vocabulary(subject.pristine) if {"ids", "id"} & {*layouts} else None)
        found = _solved(subject, signature, shapes, errors, end)
        if found is not None and not shapes.tied:
            return found
        tied = tied or found
        if time.process_time() > end:
            break
    return tied


def _solved(subject: Subject, signature: Signature, shapes: Shapes, errors: list[Failure], end: float) -> Call | None:
    others = iter(fixed_arguments(signature, (6,)))
    rest = next(others)
    for _ in range(REPAIRS):
        call = next((_completed(c, rest) for c in shapes.calls()), None)
        if call is None or time.process_time() > end:
            return None
        found = attempt_call(subject, call, errors)
        if found is not None and not runs_with_fewer(subject, found):
            return None
        if found is not None and found.arguments == call.arguments and is_finite(subject, found):
            return _most_telling(subject, found, [_completed(c, rest) for c in shapes.calls()][1:])
        if found is not None and found.arguments != call.arguments:  # the other one asks, and its companions go with it
            turned = (_completed(c, rest) for c in shapes.calls())
            return next((f for f in _running(subject, turned) if f.arguments == found.arguments), None)
        if found is not None or "NoneType" in errors[-1].text:
            rest = next(others, None)
            if rest is None:
                return None
        elif not shapes.repair(errors[-1].text):
            return None
    return None


def _completed(call: Call, rest: dict[str, Any]) -> Call:
    return call.but(fixed={**{n: v for n, v in rest.items() if n not in call.arguments}, **call.fixed})


def _running(subject: Subject, calls: Iterable[Call]) -> Iterable[Call]:
    for call in calls:
        found = attempt_call(subject, call, [])
        if found is not None and is_finite(subject, found):
            yield found


def _most_telling(subject: Subject, found: Call, others: list[Call]) -> Call:
    """A vector per item is the query if the weights over the tokens depend on it; else the tokens are all there is."""
    if found.follows or found.is_cross:
        return found
    return next((c for c in _running(subject, others) if c.follows and _asks(subject, c)), found)


class _Weights(TorchFunctionMode):
    """Remembers what every softmax and sigmoid gives."""

    def __init__(self) -> None:
        super().__init__()
        self.maps: list[Tensor] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if getattr(func, "__name__", "") in ("softmax", "sigmoid") and isinstance(out, Tensor):
            self.maps.append(out.detach())
        return out


def _asks(subject: Subject, call: Call) -> bool:
    """Do weights over the keys depend on the query? Where none is seen, the name tells."""
    generator = torch.Generator().manual_seed(2)
    first = {n: s.sample(generator) for n, s in call.sources.items()}
    second = {**first, call.query: first[call.query] + 1.0}
    seen = []
    for tokens in (first, second):
        with _Weights() as weights:
            subject.call(call.lay_out(tokens, subject.dtype), module=subject.instance(fresh=True))
        seen.append([w for w in weights.maps if call.sources[call.keys].tokens in w.shape])
    if not seen[0] or len(seen[0]) != len(seen[1]):
        names = [n for n, s in call.arguments.items() if s == call.query]
        return call_role(names[0]) in ("query", "self")
    return any(a.shape == b.shape and float((a - b).abs().max()) > 1e-6 for a, b in zip(*seen))
