"""From a forward signature to plans: which parameters are streams, which are masks, caches, positions and options."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from regard.checks.evidence import STATE
from regard.checks.roles import call_role, constructor_role
from regard.checks.signatures import signature_of

NOT_STREAMS = {
    "mask", "lengths", "cache", "cache_position", "cache_option", "positions", "return_option", "path_option", "causal_option", "bias", "grid", "segments",
}  # fmt: skip
SCALE = 0.5  # what a kernel's logits are multiplied by when its scale has to be given
HIDES = re.compile(r".*(ignor|absent|missing|dead|drop|invalid|empty|inactive|hidden|exclud).*")
SIZE_NAMES = {"h": 0, "height": 0, "w": 1, "width": 1, "d": None}


@dataclass
class Signature:
    """The parameters of a call, sorted by what they are for."""

    streams: list[str] = field(default_factory=list)  # required tensors
    extra_streams: list[str] = field(default_factory=list)  # optional tensors: context, key, value, memory
    masks: list[str] = field(default_factory=list)
    lengths: list[str] = field(default_factory=list)
    caches: list[str] = field(default_factory=list)
    cache_positions: list[str] = field(default_factory=list)
    cache_options: list[str] = field(default_factory=list)
    positions: list[str] = field(default_factory=list)
    sizes: list[str] = field(default_factory=list)  # H, W, resolution
    segments: list[str] = field(default_factory=list)  # which document of a packed row each token is from
    options: dict[str, Any] = field(default_factory=dict)  # boolean options with their defaults
    required: list[str] = field(default_factory=list)  # all parameters without a default
    unknown: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)  # masks of heads, mask objects and functions of a kernel
    hiding: set[str] = field(default_factory=set)  # masks in which True hides, as far as their names tell
    variadic: int = 0

    def kind_of(self, name: str) -> str | None:
        return call_role(name)


def read_signature(forward: Callable[..., Any]) -> Signature:
    """Sort the parameters of `forward` by role, annotation and default."""
    out = Signature()
    for p in signature_of(forward).parameters.values():
        if p.kind is p.VAR_POSITIONAL:
            out.variadic = 1
        elif p.kind is not p.VAR_KEYWORD and p.name != "self":
            _place(out, p)
    _padded_streams(out)
    if out.variadic and not out.streams:
        out.streams = ["*0"]
    if not out.streams:
        _optional_streams(out)
    return out


def _padded_streams(out: Signature) -> None:
    """What has lengths of its own (past and past_len, both required) is padded tokens, whatever it is called: no cache."""
    for name in [n for n in out.caches if n in out.required]:
        lengths = [n for n in out.required if re.fullmatch(rf"{re.escape(name)}_?(lens?|lengths?)", n)]
        if lengths:
            out.caches = [n for n in out.caches if n not in (name, *lengths)]
            out.streams = [n for n in out.required if n in (name, *out.streams)]
            out.lengths += [n for n in lengths if n not in out.lengths]
            out.cache_positions = [n for n in out.cache_positions if n not in lengths]


def _optional_streams(out: Signature) -> None:
    """Whole models take everything by keyword, all optional: ids or pixels are the stream, decoder ids the query of two."""
    names = [*out.unknown, *out.extra_streams]
    ids = next(
        (
            n
            for n in names
            if n
            in ("input_ids", "ids", "tokens", "idx", "pixel_values", "input_values", "input_features", "inputs", "x")
        ),
        None,
    )
    first = ids or next(iter(names), None)
    if first is None:
        return
    streams = [first]
    decoder = next((n for n in names if n == f"decoder_{first}"), None)
    if decoder is not None:
        streams = [decoder, first]
    out.streams = streams
    out.extra_streams = [n for n in out.extra_streams if n not in streams and not n.endswith("embeds")]
    out.unknown = [n for n in out.unknown if n not in streams]


def _place(out: Signature, p: inspect.Parameter) -> None:
    role, required = call_role(p.name), p.default is p.empty
    text = str(p.annotation)
    tensor = "Tensor" in text
    if required:
        out.required.append(p.name)
    if isinstance(p.default, bool) or p.annotation in (bool, "bool"):
        out.options[p.name] = p.default if not required else False
        return
    first = required and not out.streams
    if first and role not in ("mask", "lengths", "cache") and not _plain_number(p):
        out.streams.append(p.name)
    elif (required and p.name.lower() in SIZE_NAMES and _sizes_follow(out)) or (role == "grid" and not tensor):
        out.sizes.append(p.name)
    elif role == "left_out":
        out.left_out.append(p.name)
    elif role == "mask" and not _counts(p):
        out.masks.append(p.name)
        if HIDES.fullmatch(p.name.lower()):
            out.hiding.add(p.name)
    elif role == "lengths" and not _counts(p) and not _plain_number(p):
        out.lengths.append(p.name)
    elif role == "cache" and not (required and tensor):
        out.caches.append(p.name)
    elif role == "cache_position":
        out.cache_positions.append(p.name)
    elif role == "cache_option":
        out.cache_options.append(p.name)
    elif role == "segments":
        out.segments.append(p.name)
    elif role in ("positions", "bias"):
        out.positions.append(p.name)
    elif required and not _plain_number(p) and constructor_role(p.name) != "scale":
        out.streams.append(p.name)
    elif role in ("context", "key", "value", "query", "self") and p.default is None:
        out.extra_streams.append(p.name)
    else:
        out.unknown.append(p.name)


def _counts(p: inspect.Parameter) -> bool:
    """Is a number what it is when nothing is given (logits_to_keep=0, pad=1)? Then it is no mask."""
    return type(p.default) in (int, float)


def _plain_number(p: inspect.Parameter) -> bool:
    return p.annotation in (int, float, "int", "float", str, "str")


def _sizes_follow(out: Signature) -> bool:
    return len(out.streams) == 1


def stream_plans(signature: Signature) -> list[dict[str, str]]:
    """Ways to feed the streams from sources, the likeliest first: {"q": "x", "k": "x", "v": "x"}, then cross."""
    names = signature.streams
    if len(names) == 1 and names[0] != "*0":
        return [{names[0]: "x"}, {f"{names[0]}[0]": "query", f"{names[0]}[1]": "context"}]
    if len(names) == 1:
        return [{names[0]: "x"}]
    roles = [call_role(n) for n in names]
    if set(roles[:3]) == {"query", "key", "value"} or len(names) == 3:
        query = names[roles.index("query")] if "query" in roles else names[0]
        first = dict.fromkeys(names[:3], "x")
        cross = {n: "query" if n == query else "context" for n in names[:3]}
        rest = dict.fromkeys(names[3:], "context")
        return [{**first, **dict.fromkeys(names[3:], "x")}, {**cross, **rest}]
    if len(names) == 2:
        if names[0] == f"decoder_{names[1]}":
            return [{names[0]: "query", names[1]: "context"}]
        swapped = roles[0] in ("context", "key", "value") and roles[1] in ("query", "self")
        swapped |= roles[0] in ("self", None) and roles[1] == "query"
        query, other = (names[1], names[0]) if swapped else (names[0], names[1])
        plans = [{query: "query", other: "context"}]
        if set(roles) == {"query", "value"}:  # the key is made of the query's argument: one stream
            return [dict.fromkeys(names, "x")]
        if set(roles) <= {"query", "key", "value"}:
            plans.append(dict.fromkeys(names, "x"))
        return plans
    return [dict.fromkeys(names, "x"), {n: ("query" if i == 0 else "context") for i, n in enumerate(names)}]


def cross_plans(signature: Signature) -> list[dict[str, str]]:
    """Plans that also fill the optional streams (context=None, key=None ...)."""
    if not signature.extra_streams or not signature.streams:
        return []
    queries = [n for n in signature.extra_streams if call_role(n) == "query"]
    if queries and call_role(signature.streams[0]) in ("context", "key", "value"):  # forward(context, queries=None)
        return [{queries[0]: "query", signature.streams[0]: "context"}]
    base = {signature.streams[0]: "query"}
    groups = [signature.extra_streams]
    if len(signature.extra_streams) > 1:
        kv = [n for n in signature.extra_streams if call_role(n) in ("key", "value")]
        groups = [g for g in (kv, [signature.extra_streams[0]], signature.extra_streams) if g]
    return [{**base, **dict.fromkeys(group, "context")} for group in groups]


def fixed_arguments(signature: Signature, grid: tuple[int, ...]) -> list[dict[str, Any]]:
    """Values for required parameters that are no streams (grid sizes, positions, counters, flags), the likeliest first."""
    base: dict[str, Any] = {}
    for name in signature.required:
        if name in signature.sizes:
            base[name] = _size(name, signature.sizes, grid)
        elif name in signature.cache_positions or name in signature.cache_options or name in signature.unknown:
            base[name] = SCALE if constructor_role(name) == "scale" else 0
        elif name in signature.positions:
            base[name] = _positions
        elif name in signature.caches or name in signature.masks or name in signature.left_out:
            base[name] = None
        elif name in signature.options:
            base[name] = signature.options[name]
        elif name in signature.lengths:
            base[name] = _full_lengths
        elif name in signature.segments:
            base[name] = _one_document
    return [base, *_variants(signature, base)]


def _variants(signature: Signature, base: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What else required arguments may be: masks that hide nothing, and nothing where a number or a table was given."""
    masks = [n for n in signature.required if n in signature.masks]
    tables = [n for n in signature.required if n in signature.positions]
    numbers = [n for n in signature.required if n in signature.unknown and constructor_role(n) != "scale"]
    scales = {n: SCALE for n in signature.unknown if n not in signature.required and constructor_role(n) == "scale"}
    opened = [
        {n: choices[i] for n, choices in ((n, _openings(signature, n)) for n in masks)} for i in range(len(HIDDEN))
    ]
    two = [  # one for each of two streams
        {n: _of_stream(q, n in signature.hiding) for n, q in zip(masks, order)}
        for order in ((True, False), (False, True))
    ]
    for given in (dict.fromkeys(masks, None), *(two if len(masks) == 2 else ()), *opened) if masks else ({},):
        for without in (tables, [*tables, *numbers]) if tables or numbers else ([],):
            yield {**base, **scales, **given, **dict.fromkeys(without, None)}
    places = [n for n in signature.required if n in signature.cache_positions or n in signature.positions]
    for axes in (3, 2) if places else ():
        yield {**base, **dict.fromkeys(places, _coordinates(axes))}


def _size(name: str, sizes: list[str], grid: tuple[int, ...]) -> Any:
    """One number of the grid, or all of it. Tokens in a row are taken for the rows of the squarest rectangle; one vector is one token."""
    grid = grid or (1,)
    at = SIZE_NAMES.get(name.lower())
    two_wanted = sum(n.lower() in SIZE_NAMES for n in sizes) > 1 or at is None
    if len(grid) == 1 and two_wanted:
        rows = max(d for d in range(1, int(grid[0] ** 0.5) + 1) if grid[0] % d == 0)
        grid = (rows, grid[0] // rows)
    if at is not None and at < len(grid):
        return grid[at]
    first, *others = grid
    return grid if others else first


def _positions(tokens: dict[str, Tensor], dtype: torch.dtype) -> Tensor:
    """positions 0 .. T - 1, (1, T)"""
    return torch.arange(next(iter(tokens.values())).shape[1])[None]


def _coordinates(axes: int) -> Callable[[dict[str, Tensor], torch.dtype], Tensor]:
    def where(tokens: dict[str, Tensor], dtype: torch.dtype) -> Tensor:
        items, count = next(iter(tokens.values())).shape[:2]
        generator = torch.Generator().manual_seed(3)
        return torch.rand(1, count, axes, generator=generator, dtype=torch.float64).expand(items, -1, -1).to(dtype)

    where.__doc__ = f"coordinates of the tokens, (B, T, {axes})"
    return where


def _one_document(tokens: dict[str, Tensor], dtype: torch.dtype) -> Tensor:
    """one document per row, (B, T) of ones: 0 is often no document"""
    return torch.ones(next(iter(tokens.values())).shape[:2], dtype=torch.long)


def _full_lengths(tokens: dict[str, Tensor], dtype: torch.dtype) -> Tensor:
    """the full length of every item, (B,)"""
    keys = list(tokens.values())[-1]
    return torch.full((keys.shape[0],), keys.shape[1])


def _open(axes: str, dtype: torch.dtype | None, value: int) -> Callable[[dict[str, Tensor], torch.dtype], Tensor]:
    """A mask of one value; a dtype of None is the working one."""

    def mask(tokens: dict[str, Tensor], working: torch.dtype) -> Tensor:
        queries, keys = next(iter(tokens.values())), list(tokens.values())[-1]
        size = {"B": keys.shape[0], "S": keys.shape[1], "T": queries.shape[1], "1": 1}
        return torch.full(tuple(size[a] for a in axes), value, dtype=dtype or working)

    mask.__doc__ = f"a mask ({', '.join(axes)}) that hides nothing"
    return mask


AXES = ("BS", "BTS", "B1TS", "TS")
SEEN = [_open(axes, torch.bool, 1) for axes in AXES]
ONES = [_open(axes, None, 1) for axes in AXES]
ADDED = [_open(axes, None, 0) for axes in AXES]
HIDDEN = [_open(axes, dtype, 0) for dtype in (torch.bool, None, torch.long) for axes in AXES]


def _openings(signature: Signature, name: str) -> list[Callable[[dict[str, Tensor], torch.dtype], Tensor]]:
    """Masks that hide nothing, the likeliest first: ones where the name says what is seen, zeros where it says what is not."""
    if name in signature.hiding:
        return HIDDEN
    return [*SEEN, *ONES, *ADDED] if re.fullmatch(STATE, name) else [*SEEN, *ADDED, *ONES]


def _of_stream(first: bool, hides: bool) -> Callable[[dict[str, Tensor], torch.dtype], Tensor]:
    def mask(tokens: dict[str, Tensor], working: torch.dtype) -> Tensor:
        stream = list(tokens.values())[0 if first else -1]
        return torch.full(stream.shape[:2], not hides)

    mask.__doc__ = f"a mask ({'queries' if first else 'keys'} of every item) that hides nothing"
    return mask
