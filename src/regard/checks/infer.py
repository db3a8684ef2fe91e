"""How to call a subject, found by trying: streams, layout, widths, lengths, and where the main output is."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from regard.checks import sizes
from regard.checks.call import Call, Source
from regard.checks.layout import Layout, output_layout
from regard.checks.plan import Signature, cross_plans, fixed_arguments, read_signature, stream_plans
from regard.checks.shape_names import layout_hint
from regard.checks.subject import Subject, describe_error, line_in

SECONDS = 8.0  # of the processor, for finding one call
FIRST = 0.6  # the part of what is left that a plan may use while another waits
BATCHES = (3, 2, 1)
KERNEL_HEADS = 4


@dataclass(frozen=True)
class Failure:
    """Why a call did not run, and how far into the forward it came (the line)."""

    text: str
    line: int = 0


class NotCallable(Exception):
    """No way to call the subject was found; the text holds the error of the attempt that came furthest, `line` how far."""

    def __init__(self, text: str, line: int = 0) -> None:
        super().__init__(text)
        self.line = line


def infer_call(subject: Subject, signature: Signature | None = None, seconds: float = SECONDS) -> Call:
    """The first plan that runs and gives a float tensor.

    Raises:
        NotCallable: with the error of the attempt that came furthest.
    """
    signature = signature or read_signature(subject.forward)
    if not signature.streams:
        raise NotCallable("its signature names no argument that could take a tensor")
    errors: list[Failure] = []
    plans = [*stream_plans(signature), *cross_plans(signature)]  # an argument may be optional in name only
    passes = (False, True) if len(fixed_arguments(signature, (6,))) > 1 else (False,)
    for further in passes:
        last = time.process_time() + seconds / len(passes)
        for i, plan in enumerate(plans):
            now = time.process_time()
            until = now + (last - now) * (FIRST if i + 1 < len(plans) else 1.0)
            call = _try_plan(subject, signature, plan, errors, until, further=further)
            if call is not None:
                return call
    best = max(errors, key=lambda e: e.line, default=Failure("it takes no tensor argument that we could find"))
    raise NotCallable(f"{best.text} ({len(errors)} attempts)", best.line)


def infer_cross(subject: Subject, signature: Signature, primary: Call) -> Call | None:
    """A second way to call it, with a separate context, where there is one."""
    if primary.is_cross:
        return None
    plans = [
        p for p in stream_plans(signature) if len(set(p.values())) > 1 and not next(iter(p)).endswith("]")
    ] + cross_plans(signature)
    for plan in plans:
        call = _try_plan(subject, signature, plan, [], time.process_time() + SECONDS, like=primary)
        if call is not None:
            return call
    return None


def _try_plan(
    subject: Subject,
    signature: Signature,
    plan: dict[str, str],
    errors: list[Failure],
    last: float,
    like: Call | None = None,
    further: bool = False,
) -> Call | None:
    hint = layout_hint(subject.forward, next(iter(plan)))
    wanted: dict[str, int] = {}  # layout -> the width that an error message asked for
    misled: set[str] = set()  # layouts in which that did not help
    refused: set[str] = set()  # layouts with another number of axes than the forward unpacks
    for sources in _source_candidates(subject.pristine, plan, like, hint):
        if time.process_time() > last:
            return None
        first = next(iter(sources.values()))
        if first.layout.axes in wanted and wanted[first.layout.axes] not in [s.width for s in sources.values()]:
            continue
        call = attempt(subject, signature, plan, sources, errors, further=further)
        if call is not None:
            return call
        if unpacks_other(errors[-1].text, len(first.layout.axes)):
            refused.add(first.layout.axes)
        if "tuple of Tensors, not Tensor" in errors[-1].text:  # it stacks a list: the next plan has one
            return None
        asked, axes = width_asked(errors[-1].text), first.layout.axes
        if asked in [s.width for s in sources.values()]:  # it asks for what it got: another layer asks, not the first
            wanted.pop(axes, None)
            misled.add(axes)
        elif asked is not None and axes not in misled and asked in sizes.widths(subject.pristine):
            wanted[axes] = asked
    return None


def width_asked(error: str) -> int | None:
    """The width that torch's message says a layer expects."""
    for pattern in (r"and (\d+)x\d+\)", r"normalized_shape=\[(\d+)\]", r"to have (\d+) channels"):
        found = re.search(pattern, error)
        if found:
            return int(found.group(1))
    return None


def unpacks_other(error: str, axes: int) -> bool:
    """Does the message say that a shape with this many axes was unpacked into another number of names?"""
    found = re.search(r"unpack \(expected (\d+)(?:, got (\d+))?\)", error)
    return bool(found) and (int(found.group(2)) == axes if found.group(2) else int(found.group(1)) == axes - 1)


def attempt(
    subject: Subject,
    signature: Signature,
    plan: dict[str, str],
    sources: dict[str, Source],
    errors: list[Failure],
    *,
    further: bool = False,
) -> Call | None:
    """The call with these sources if it runs, else None (the reasons are appended). `further`: the less likely values of other arguments."""
    query = next((s for s in ("query", "x") if s in sources), next(iter(sources)))
    every = fixed_arguments(signature, sources[query].grid)
    for fixed in every[1:] if further else every[:1]:
        call = Call(sources, plan, fixed, query=query)
        found = _attempt(subject, call, errors)
        if found is not None and found.arguments != plan:  # the streams changed places: so may what goes with them
            again = (_attempt(subject, found.but(fixed=f), errors) for f in (fixed, *every))
            return next((a for a in again if a is not None and a.arguments == found.arguments), found)
        if found is not None:
            return found
    return None


def _attempt(subject: Subject, call: Call, errors: list[Failure]) -> Call | None:
    generator = torch.Generator().manual_seed(1)
    tokens = {n: s.sample(generator) for n, s in call.sources.items()}
    try:  # on one object, since most attempts fail; what runs must also run on a fresh one
        kwargs = call.lay_out(tokens, subject.dtype)
        raw = subject.call(kwargs, module=subject.trial())
        raw = subject.call(kwargs, module=subject.instance(fresh=True))
    except Exception as error:
        errors.append(Failure(describe_error(error), line_in(error, subject.forward)))
        return None
    query = call.sources[call.query]
    found = main_tensor(raw, query, call.sources[call.keys])
    if call.is_cross and (found is None or not found[2]):  # the stream that the output follows is the one that asks
        other = main_tensor(raw, call.sources[call.keys], query)
        if other is not None and other[2]:
            turned = {"query": call.sources[call.keys], "context": query}
            fed = {p: "context" if s == call.query else "query" for p, s in call.arguments.items()}
            found, call = other, call.but(sources=turned, arguments=fed, query="query")
    if found is None:
        errors.append(
            Failure(f"it returned {type(raw).__name__} without a float tensor of {query.batch} items", 1 << 20)
        )
        return None
    path, layout, follows = found
    if not follows and _no_batch_axis(subject, call, raw):
        errors.append(Failure("its first output has the same shape for any number of items", 1 << 20))
        return None
    return call.but(output=path, output_layout=layout, follows=follows)


def _no_batch_axis(subject: Subject, call: Call, raw: Any) -> bool:
    """Is the first output, of more than one number, of one shape for more items too? Then their axis is not the batch."""
    more = {n: replace(s, batch=s.batch + 1) for n, s in call.sources.items()}
    generator = torch.Generator().manual_seed(1)
    try:
        tokens = {n: s.sample(generator) for n, s in more.items()}
        other = subject.call(call.but(sources=more).lay_out(tokens, subject.dtype), module=subject.trial())
    except Exception:
        return False
    first, again = (next((t for _, t in float_tensors(r)), None) for r in (raw, other))
    return first is not None and again is not None and first.numel() > 1 and first.shape == again.shape


def _source_candidates(
    module: Any, plan: dict[str, str], like: Call | None, hint: str | None
) -> Iterator[dict[str, Source]]:
    names = list(dict.fromkeys(plan.values()))
    if like is not None and names != ["x"]:
        base = like.sources[like.query]
        for other in _other_lengths(base):
            for width in dict.fromkeys([base.width, *sizes.widths(module)]):
                ids = base.vocabulary is not None  # a model of ids reads the states of another
                if ids and width == 1:
                    continue
                context = Source(Layout("BLD") if ids else base.layout, base.batch, other, width, base.heads)
                yield {names[0]: base, names[1]: context}
        return
    vocabulary = sizes.vocabulary(module)
    collisions: list[dict[str, Source]] = []  # an axis could be taken for another: only when nothing else runs
    for layout, batch in itertools.product(layouts(module, plan, hint), BATCHES):
        if layout.axes == "BL" and vocabulary is None:
            continue
        for i, grid in enumerate(_grids(module, layout)):
            if i == 1 and layout.axes == "BLD" and len(names) == 2:
                yield from _one_query_each(module, names, layout, batch, _grids(module, layout)[0])
            for width in _widths(module, layout, names, grid):
                if width in grid or (len(grid) > 1 and set(grid) & set(sizes.widths(module)[:2])):
                    collisions += _with_context(module, names, layout, batch, grid, width, vocabulary)
                else:
                    yield from _with_context(module, names, layout, batch, grid, width, vocabulary)
    yield from collisions


def _with_context(
    module: Any, names: list[str], layout: Layout, batch: int, grid: tuple[int, ...], width: int, vocabulary: int | None
) -> Iterator[dict[str, Source]]:
    heads = KERNEL_HEADS if "K" in layout.axes else 1
    source = Source(layout, batch, grid, width, heads, vocabulary if layout.axes == "BL" else None)
    if len(names) == 1:
        yield {names[0]: source}
        return
    for other in _other_lengths(source):
        yield {names[0]: source, names[1]: Source(layout, batch, other, width, heads, source.vocabulary)}
    if layout.axes == "BKLD":  # one head of keys and values for all
        yield {names[0]: source, names[1]: Source(Layout("BLD"), batch, _other_lengths(source)[0], width)}
    for w in sizes.widths(module)[:6]:
        if w != width and isinstance(module, nn.Module):
            yield {names[0]: source, names[1]: Source(layout, batch, _other_lengths(source)[0], w, heads)}


def _one_query_each(
    module: Any, names: list[str], layout: Layout, batch: int, grid: tuple[int, ...]
) -> Iterator[dict[str, Source]]:
    """One query vector per item, (B, D), beside a context: the state of a recurrent decoder, a pooled image."""
    found = sizes.widths(module)[:6]
    for width, other in itertools.product(found, found):
        yield {names[0]: Source(Layout("BD"), batch, (), width), names[1]: Source(layout, batch, grid, other)}


def _other_lengths(source: Source) -> list[tuple[int, ...]]:
    if len(source.grid) == 1:
        return [(source.grid[0] + 2,), source.grid]
    return [source.grid]


def layouts(module: Any, plan: dict[str, str], hint: str | None = None) -> list[Layout]:
    """Layouts to try: what the author's own axis names say, then by the kind of layers and the names of the streams."""
    parts = list(module.modules()) if isinstance(module, nn.Module) else []
    conv2 = any(
        isinstance(m, (nn.Conv2d, nn.BatchNorm2d, nn.AdaptiveAvgPool2d, nn.AvgPool2d, nn.AdaptiveMaxPool2d))
        for m in parts
    )
    linear = any(isinstance(m, (nn.Linear, nn.MultiheadAttention)) for m in parts)
    conv1 = any(isinstance(m, (nn.Conv1d, nn.BatchNorm1d)) for m in parts)
    parameters = any(True for m in parts for _ in m.parameters(recurse=False))
    if parts and isinstance(
        next((m for m in parts if next(m.parameters(recurse=False), None) is not None), None), nn.Embedding
    ):
        order = ["BL", "BLD", "BDHW"]
    elif conv2:
        order = ["BDHW", "BLD", "BHWD", "BDL"]
    elif conv1 and not linear:
        order = ["BDL", "BDHW", "BLD", "BHWD"]
    elif linear or parameters:
        order = ["BLD", "BHWD", "BDHW", "BDL", "BKLD", "LD"]
    elif len(plan) >= 2:
        order = ["BKLD", "BLD", "BDHW", "LD"]
    else:
        order = ["BDHW", "BLD", "BKLD", "BHWD", "LD"]
    tail = ["BDTHW", "BTHWD", "BTLD", "BTHWLD"]
    said = [hint] if hint else []
    return [Layout(axes) for axes in dict.fromkeys([*said, *order, "BL", *tail])]


def _grids(module: Any, layout: Layout) -> list[tuple[int, ...]]:
    directions = len(layout.token_axes)
    if directions == 1:
        return [(n,) for n in sizes.lengths(module)]
    if directions == 2:
        return list(sizes.grids(module)[:24])
    if directions == 4:  # windows of windows: two places and the tokens of each
        return [(2, 3, n, n) for n in sizes.sides(module)]
    return list(dict.fromkeys([(2, 4, 6), (4, 8, 8), (8, 7, 7), *((n, 4, 6) for n in sizes.lengths(module) if n <= 8)]))


def _widths(module: Any, layout: Layout, names: list[str], grid: tuple[int, ...]) -> list[int]:
    if layout.axes == "BL":
        return [1]
    first = [20, 12, 8] if grid in ((sizes.LENGTHS[0],), sizes.GRIDS[0]) else []
    if "K" in layout.axes:
        return list(dict.fromkeys([8, *sizes.widths(module)]))
    return list(dict.fromkeys([*first, *sizes.widths(module)]))


def main_tensor(raw: Any, query: Source, keys: Source) -> tuple[tuple[Any, ...], Layout, bool] | None:
    """Path, layout and "follows the query" of the main output: the first float tensor with the batch that is no weight map."""
    rest: list[tuple[tuple[Any, ...], Layout, bool]] = []
    for path, tensor in float_tensors(raw):
        if looks_like_weights(tensor, keys.tokens) and tensor.shape[-1] != query.width:
            continue
        layout = output_layout(tuple(tensor.shape), query.layout, query.batch, query.grid)
        if layout is not None:
            return path, layout, True
        if tensor.ndim >= 1 and tensor.shape[0] == query.batch and query.layout.batched:
            axes = {1: "B", 2: "BD", 3: "BLD", 4: "BLHD", 5: "BTHWD"}.get(tensor.ndim)
            if axes:
                rest.append((path, Layout(axes), False))
    return rest[0] if rest else None


def float_tensors(raw: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Tensor]]:
    """Every floating tensor in a nest of tuples, lists, dicts and dataclasses, with the keys that lead to it."""
    if isinstance(raw, Tensor):
        if raw.is_floating_point() or raw.is_complex():
            yield path, raw
    elif isinstance(raw, dict):
        for key, value in raw.items():
            yield from float_tensors(value, (*path, key))
    elif isinstance(raw, (tuple, list)):
        for i, value in enumerate(raw):
            yield from float_tensors(value, (*path, i))
    elif hasattr(raw, "__dataclass_fields__"):
        for key in raw.__dataclass_fields__:
            yield from float_tensors(getattr(raw, key), (*path, key))


def looks_like_weights(tensor: Tensor, keys: int) -> bool:
    """Non-negative, one entry per key on the last axis, rows that sum to one."""
    if tensor.ndim < 2 or tensor.shape[-1] != keys or tensor.is_complex():
        return False
    values = tensor.detach()
    return bool((values >= 0).all()) and bool(((values.sum(-1) - 1).abs() < 1e-3).all())
