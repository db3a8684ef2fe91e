"""How a subject keeps keys and values between calls: handed back, filled in place, held inside, or a slot buffer with a position."""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from regard.checks.call import Call
from regard.checks.case import Batch, Case
from regard.checks.influence import influence
from regard.checks.subject import as_dtype, clone, invoke, untouched_globals

RESET = (
    "reset",
    "reset_cache",
    "clear",
    "clear_cache",
    "empty_cache",
    "reset_kv_cache",
    "reset_state",
    "flush",
    "new_sequence",
    "start",
)
OTHER_RESETS = re.compile(
    r"(reset|clear|flush|empty|forget|drop)_(all_?)?(kv|caches|stream(ing)?|states|memory|memories|history|buffers?|past|context|session|sequence|decod\w+|generation|incremental\w*)(_cache|_state)?s?"
)
MAKERS = (
    "new_cache",
    "make_cache",
    "init_cache",
    "allocate_cache",
    "create_cache",
    "init_state",
    "empty_cache",
    "setup_cache",
    "setup_caches",
    "get_empty_state",
)


@dataclass
class CacheUse:
    """style: "returned" (fed in as `parameter`, new one at `path` of the result), "filled" (a dict, list or object that
    the call fills), "internal" (kept by the module), "slots" (kept inside, position given as `position`)."""

    style: str
    parameter: str | None = None
    path: tuple[Any, ...] = ()
    make: Callable[[], Any] | None = None
    reset: str | None = None
    position: str | None = None
    position_form: str = "int"  # or "tensor": places of the new tokens, (T,)
    options: dict[str, Any] | None = None
    values: str | None = None  # the argument for the values, where keys and values come and go apart
    method: str | None = None  # what takes the pieces, one token at a time, where it is not forward
    renamed: dict[str, str] | None = None  # argument of forward -> argument of that method

    def describe(self) -> dict[str, Any]:
        argument = self.parameter if self.values is None else f"{self.parameter}, {self.values}"
        said = {"style": self.style, "argument": argument, "reset": self.reset, "position": self.position}
        return said if self.method is None else said | {"method": self.method}


def infer_cache(case: Case) -> CacheUse | None:
    """The first style under which a second chunk reacts to the first."""
    if case.call.sources[case.call.query].layout.axes not in ("BLD", "LBD", "BL", "LB", "BKLD", "BDL"):
        return None
    for use in _candidates(case):
        try:
            if remembers(case, use):
                return use
        except Exception:  # this style does not fit; the next is tried
            continue
    return None


def _candidates(case: Case) -> list[CacheUse]:
    signature = case.signature
    flags = {n: True for n in signature.options if n in signature.cache_options or n in ("use_cache", "return_cache")}
    flags |= {n: True for n in signature.cache_options if n not in flags}
    position = signature.cache_positions[0] if signature.cache_positions else None
    out = []
    returned = [n for n in [*signature.unknown, *signature.extra_streams] if signature_default_none(case, n)]
    pairs = [(a, b) for a, b in itertools.pairwise(signature.caches) if _keys_then_values(a, b)]
    out += [CacheUse("returned", a, values=b, options=o, position=position) for a, b in pairs for o in ({}, flags)]
    for parameter in [*signature.caches, *returned]:
        for options in ({}, flags) if flags else ({},):
            maker = [*_annotated(case, parameter), *_maker(case, parameter)]
            out.append(CacheUse("returned", parameter, options=options, position=position))
            for make in (dict, list, *maker, _dynamic):
                out.append(CacheUse("filled", parameter, make=make, options=options, position=position))
    if case.subject.stateful or resets(case):
        out.append(CacheUse("internal", reset=_reset(case), options=flags, position=position))
        out.append(CacheUse("internal", reset=_reset(case), options={}, position=position))
        for flag in _switches(case, flags):
            out.append(CacheUse("internal", reset=_reset(case), options={flag: True}, position=position))
    elif position or flags:
        out.append(CacheUse("slots", options=flags, position=position, reset=_reset(case)))
    return [replace(u, position_form=form) for u in out for form in (("int", "tensor") if position else ("int",))]


def _switches(case: Case, known: dict[str, bool]) -> list[str]:
    """Options of the call that are off by default and may switch to decoding: incremental, decode, stream."""
    parameters = case.subject.signature().parameters.values()
    taken = {*known, *case.call.arguments}
    return [p.name for p in parameters if p.default is False and p.name not in taken]


def _keys_then_values(a: str, b: str) -> bool:
    """prev_k and prev_v, key_cache and value_cache: one name, but for a word."""
    words = [re.split(r"_|(?<=[a-z])(?=[A-Z])", n) for n in (a, b)]
    pairs = [(p.lower().rstrip("s"), q.lower().rstrip("s")) for p, q in zip(*words) if p != q]
    return len(words[0]) == len(words[1]) and pairs in ([("k", "v")], [("key", "value")])


def signature_default_none(case: Case, name: str) -> bool:
    return case.subject.signature().parameters[name].default is None


def resets(case: Case) -> list[str]:
    """Methods by whose names an author offers to begin anew, the likeliest first."""
    subject = case.subject.pristine
    own = [n for n in dir(type(subject)) if not hasattr(nn.Module, n) and n not in RESET and OTHER_RESETS.fullmatch(n)]
    return [r for r in (*RESET, *own) if callable(getattr(subject, r, None))]


def _reset(case: Case) -> str | None:
    return next(iter(resets(case)), None)


def _maker(case: Case, parameter: str) -> list[Callable[[], Any]]:
    """Methods that make an empty cache: of a usual name, or named for the parameter (new_store for store)."""

    def make(name: str) -> Callable[[], Any]:
        def call() -> Any:
            batch = case.call.sources[case.call.query].batch
            method = getattr(case.subject.instance(), name)
            wanted = [p for p in inspect.signature(method).parameters.values() if p.default is p.empty]
            return method(*(batch, 64)[: max(len(wanted), 1)]) if wanted else method()

        return call

    named = [
        f"{verb}_{parameter}" for verb in ("new", "make", "init", "create", "empty", "allocate", "get", "get_empty")
    ]
    names = dict.fromkeys([*MAKERS, *named])
    return [make(n) for n in names if callable(getattr(case.subject.pristine, n, None))]


def _annotated(case: Case, parameter: str) -> list[Callable[[], Any]]:
    """Classes that the annotation names, or that stand beside the subject and are called after a cache or the parameter."""
    scope = getattr(inspect.unwrap(case.subject.forward), "__globals__", {})
    annotation = case.subject.signature().parameters[parameter].annotation
    words = re.findall(r"\w+", annotation if isinstance(annotation, str) else str(annotation))
    called = ("cache", *([parameter.lower()] if len(parameter) > 2 else []))
    beside = [v for n, v in scope.items() if inspect.isclass(v) and any(c in n.lower() for c in called)]
    named = [scope.get(w) for w in words] + [
        c for c in beside if not issubclass(c, nn.Module) or "cache" in c.__name__.lower()
    ]
    return list(
        dict.fromkeys(c for c in named if inspect.isclass(c) and c.__module__ not in ("builtins", "typing", "torch"))
    )


def _dynamic() -> Any:
    from transformers import DynamicCache

    return DynamicCache()


@dataclass
class Stream:
    """A subject in the middle of a sequence: `feed` gives the output of the next chunk."""

    case: Case
    use: CacheUse
    call: Call
    module: Any
    state: Any = None
    position: int = 0

    def feed(self, chunk: Batch, extra: dict[str, Any] | None = None) -> Tensor:
        case, use = self.case, self.use
        kwargs = self.call.lay_out(chunk, case.subject.dtype)
        kwargs |= use.options or {}
        kwargs |= extra or {}
        if use.parameter is not None and (self.state is not None or use.style == "filled"):
            kwargs |= (
                dict(zip((use.parameter, use.values), self.state or ())) if use.values else {use.parameter: self.state}
            )
        if use.position is not None:
            n = chunk[self.call.query].shape[1]
            kwargs[use.position] = (
                self.position if use.position_form == "int" else torch.arange(self.position, self.position + n)
            )
        with untouched_globals(case.seed), torch.no_grad():
            kept = (use.parameter, use.values)
            kwargs = {k: v if k in kept else clone(v) for k, v in kwargs.items()}
            raw = invoke(self.module, kwargs) if use.method is None else self._step(kwargs)
        if use.values is not None:
            self.state = _pair(raw, self.call)
        elif use.style == "returned":
            self.state = _at(raw, use.path or _cache_path(raw, self.call))
        self.position += chunk[self.call.query].shape[1]
        return self.call.main_output(raw)

    def _step(self, kwargs: dict[str, Any]) -> Any:
        assert self.use.method is not None, "a step is a call of a named method"
        names = self.use.renamed or {}
        return invoke(getattr(self.module, self.use.method), {names.get(k, k): v for k, v in kwargs.items()})

    def feed_singly(self, batch: Batch) -> Tensor:
        """The outputs of a sequence of which one token comes at a time."""
        return torch.cat([self.feed(c) for c in chunks(self.call, batch, [1] * batch[self.call.query].shape[1])], 1)

    def reset(self) -> None:
        """Begin another sequence the way the author offers: the reset method, or no cache."""
        self.state = self.use.make() if self.use.style == "filled" and self.use.make else None
        self.position = 0
        if self.use.reset is not None:
            getattr(self.module, self.use.reset)()


def open_stream(case: Case, use: CacheUse | None = None) -> Stream:
    """A stream with an empty cache on a copy of the subject."""
    use = use or case.cache
    assert use is not None, "a case without a cache has nothing to stream through"
    module = case.subject.instance(fresh=True)
    stream = Stream(case, use, case.call, module)
    if use.style == "filled":
        assert use.make is not None, "the style 'filled' comes with a maker of its cache"
        stream.state = use.make()
        if isinstance(stream.state, nn.Module):
            as_dtype(stream.state, case.subject.dtype)
    return stream


def runs_forward(case: Case) -> bool:
    """Does no output see a later token of its own stream, so that pieces can equal the whole?"""
    if not case.call.is_cross:
        return bool(case.facts.get("causal"))
    return case.call.follows and influence(case, source=case.call.query).causal


def chunks(call: Call, batch: Batch, sizes: Sequence[int]) -> list[Batch]:
    """The queries' tokens cut along the sequence; a context is handed over whole each time."""
    out, at = [], 0
    for n in sizes:
        out.append({k: x[:, at : at + n] if k == call.query else x for k, x in batch.items()})
        at += n
    return out


def remembers(case: Case, use: CacheUse) -> bool:
    """Does the second chunk react to the first, and does it run with a first chunk of several tokens?"""
    batch = case.sample(5)
    first, second = chunks(case.call, batch, [3, 1] if use.method is None else [1, 1])
    x = first[case.call.query]
    elsewhere = (
        x + case.sample(6)[case.call.query][:, : x.shape[1]]
        if x.is_floating_point()
        else (x + 1) % max(int(x.max()), 2)
    )
    other = {**first, case.call.query: elsewhere}  # a constant added would be gone after a LayerNorm
    outs = []
    for start in (first, other):
        stream = open_stream(case, use)
        stream.feed(start)
        outs.append(stream.feed(second))
    return case.difference(*outs) > case.tolerance


def _cache_path(raw: Any, call: Call) -> tuple[Any, ...]:
    """Where the new cache is: the last element of a tuple that is not the main output, or a field named for it."""
    if isinstance(raw, dict) or hasattr(raw, "__dataclass_fields__"):
        names = list(raw) if isinstance(raw, dict) else list(raw.__dataclass_fields__)
        names = [n for n in names if n not in call.output]
        for word in ("past", "cache", "kv", "state"):
            hit = [n for n in names if word in str(n)]
            if hit:
                return (hit[0],)
    if isinstance(raw, (tuple, list)) and len(raw) > 1:
        skip = call.output[0] if call.output else 0
        order = [i for i in reversed(range(len(raw))) if i != skip]
        nested = [i for i in order if not isinstance(raw[i], Tensor) and raw[i] is not None]
        return ((nested or order)[0],)
    raise ValueError("no cache among what was returned")


def _pair(raw: Any, call: Call) -> tuple[Tensor, Tensor]:
    """Keys and values that are handed back beside the main output: the last two tensors of a tuple."""
    main = call.output[0] if call.output else 0
    rest = [t for i, t in enumerate(raw) if i != main and isinstance(t, Tensor)] if isinstance(raw, tuple) else []
    if len(rest) < 2:
        raise ValueError("no pair of keys and values among what was returned")
    return rest[-2], rest[-1]


def _at(raw: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        raw = raw[key] if not isinstance(key, str) or isinstance(raw, dict) else getattr(raw, key)
    return raw
