"""How to call a subject, found by trying: streams, layout, widths, lengths, and where the main output is."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from regard.checks import sizes
from regard.checks.asked import unpacks_other, width_asked
from regard.checks.attempt import Failure, NotCallable, attempt, reads_ids_as_numbers, runs_with_fewer
from regard.checks.call import Call, Source
from regard.checks.infer_forms import infer_forms, streams_that_are_added
from regard.checks.infer_shapes import arguments_apart, search
from regard.checks.layout import Layout
from regard.checks.outputs import (
    float_tensors as float_tensors,  # rules import these three from here
    looks_like_weights as looks_like_weights,
    main_tensor as main_tensor,
)
from regard.checks.plan import Signature, cross_plans, fixed_arguments, read_signature, stream_plans
from regard.checks.roles import call_role
from regard.checks.shape_names import layout_hint
from regard.checks.subject import Subject
from regard.checks.turned import series_are_tokens

SECONDS = 8.0  # of the processor, for finding one call
APART = 0.5  # the part of what is left that arguments of shapes of their own may use, where there are several
ALONE = 0.15  # the same, where there is one
LIKELY = 120  # attempts with each plan before that
FIRST = 0.6  # the part of what is left that a plan may use while another waits
BATCHES = (3, 2, 1)
KERNEL_HEADS = 4
STRAY = 300  # further attempts after one that ran by accident, it seems
AFTERWARDS = 0.7  # seconds of the processor for arguments of forms of their own, when nothing else runs


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
    end = time.process_time() + seconds
    call = _arguments_apart(subject, signature, plans, errors, end)
    if call is not None:
        return call
    call = _forms(subject, signature, plans, errors, end)
    if call is not None:
        return call
    now, hint = time.process_time(), None
    for at, further in enumerate(passes):
        last = now + (end - now) * (at + 1) / len(passes)
        for i, plan in enumerate(plans):
            begun = time.process_time()
            until = begun + (last - begun) * (FIRST if i + 1 < len(plans) else 1.0)
            call = _try_plan(subject, signature, plan, errors, until, further=further, hint=hint)
            if call is not None:
                return call
            if not further and _misses(signature, errors):  # this layout is right
                hint = errors[-1].axes
                break
    call = infer_forms(subject, signature, errors, time.process_time() + AFTERWARDS)
    if call is not None:
        return call
    best = max(errors, key=lambda e: e.line, default=Failure("it takes no tensor argument that we could find"))
    raise NotCallable(f"{best.text} ({len(errors)} attempts)", best.line)


def _arguments_apart(
    subject: Subject, signature: Signature, plans: list[dict[str, str]], errors: list[Failure], end: float
) -> Call | None:
    """Where several arguments are required: the likeliest plans, then arguments of shapes of their own."""
    apart = arguments_apart(subject, signature)
    if not apart or layouts(subject.pristine, plans[0])[0].axes not in ("BLD", "BL"):
        return None
    start = time.process_time()
    for further, plan in itertools.product((False, True), plans):
        until = start + (end - start) * APART
        call = _try_plan(subject, signature, plan, errors, until, further=further, most=LIKELY)
        if call is not None and runs_with_fewer(subject, call):
            return call
    start = time.process_time()
    for arguments in apart:
        call = search(subject, signature, arguments, errors, start + (end - start) * APART)
        if call is not None and not streams_that_are_added(subject, call):
            return call
    return None


def _forms(
    subject: Subject, signature: Signature, plans: list[dict[str, str]], errors: list[Failure], end: float
) -> Call | None:
    """The likeliest sizes of each plan, then arguments of forms of their own; where there is one argument, for a short time."""
    if signature.sizes or {"key", "value"} <= {call_role(n) for n in signature.streams}:
        return None
    start, one = time.process_time(), len(signature.required) < 2
    signals = layouts(subject.pristine, plans[0])[0].axes == "BDL"  # what tries shapes apart puts channels last
    apart = bool(arguments_apart(subject, signature)) and not signals
    likely = () if apart else itertools.product((False, True), plans)
    for further, plan in likely:
        until = start + (end - start) * (ALONE if one else APART)
        call = _try_plan(subject, signature, plan, errors, until, further=further, most=LIKELY)
        if call is not None and runs_with_fewer(subject, call):
            return call
    now = time.process_time()
    return infer_forms(subject, signature, errors, now + (end - now) * (ALONE if one else APART))


def infer_cross(subject: Subject, signature: Signature, primary: Call) -> Call | None:
    """A second way to call it, with a separate context, where there is one."""
    fed = {n.partition("[")[0] for n in primary.arguments}
    if primary.is_cross or not set(signature.streams) <= fed | {"*0"}:  # in the second case some are companions
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
    most: int | None = None,
    hint: str | None = None,
) -> Call | None:
    """most: so many attempts, and none with sizes that are alike by chance."""
    hint = layout_hint(subject.forward, next(iter(plan))) if hint is None else hint
    wanted: dict[str, int] = {}  # layout -> the width that an error message asked for
    misled: set[str] = set()  # layouts in which that did not help
    refused: set[str] = set()  # layouts with another number of axes than the forward unpacks
    odd, after = None, 0
    for sources in itertools.islice(_source_candidates(subject.pristine, plan, like, hint, most is None), most):
        if time.process_time() > last or (after := after + bool(odd)) > STRAY:
            return odd
        first = next(iter(sources.values()))
        if first.layout.axes in wanted and wanted[first.layout.axes] not in [s.width for s in sources.values()]:
            continue
        call = attempt(subject, signature, plan, sources, errors, further=further)
        if call is not None and hint == "BDL" == first.layout.axes and series_are_tokens(subject, call):
            return _try_plan(subject, signature, plan, errors, last, like, further, most, hint="")
        if call is not None and not (
            like is None and (_stretched(subject, call) or reads_ids_as_numbers(subject, call))
        ):
            return call
        if call is not None:  # only when nothing else runs
            odd = odd or call
            continue
        if odd is not None:
            continue
        if unpacks_other(errors[-1].text, len(first.layout.axes)):
            refused.add(first.layout.axes)
        if "tuple of Tensors, not Tensor" in errors[-1].text:  # it stacks a list: the next plan has one
            return None
        if not further and _misses(signature, errors):  # the next pass gives it
            return None
        asked, axes = width_asked(errors[-1].text), first.layout.axes
        if asked in [s.width for s in sources.values()]:  # it asks for what it got: another layer asks, not the first
            wanted.pop(axes, None)
            misled.add(axes)
        elif asked is not None and axes not in misled and asked in sizes.widths(subject.pristine):
            wanted[axes] = asked
    return odd


def _stretched(subject: Subject, call: Call) -> bool:
    """Has the output more axes than any input, and no items or tokens in common: was something broadcast by accident?"""
    if call.follows or call.sources[call.query].batch > 1:
        return False
    generator = torch.Generator().manual_seed(1)
    given = call.lay_out({n: s.sample(generator) for n, s in call.sources.items()}, subject.dtype)
    raw = subject.call(given, module=subject.trial())
    most = max((x.ndim for _, x in float_tensors(given)), default=0)
    return isinstance(raw, torch.Tensor) and raw.ndim > most


def _misses(signature: Signature, errors: list[Failure]) -> bool:
    """Did the last attempt need an argument that got None?"""
    return "NoneType" in errors[-1].text and None in fixed_arguments(signature, (6,))[0].values() if errors else False


def _source_candidates(
    module: Any, plan: dict[str, str], like: Call | None, hint: str | None, alike: bool
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
        one = batch == 1 and layout.batched  # one item goes with anything
        if (layout.axes == "BL" and vocabulary is None) or (one and not alike) or (batch > 1 and not layout.batched):
            continue
        for i, grid in enumerate(_grids(module, layout)):
            if i == 1 and layout.axes == "BLD" and len(names) == 2:
                yield from _one_query_each(module, names, layout, batch, _grids(module, layout)[0])
            for width in _widths(module, layout, names, grid):
                if (
                    width in grid
                    or (batch in grid and batch > 1)
                    or (len(grid) > 1 and set(grid) & set(sizes.widths(module)[:2]))
                ):
                    collisions += _with_context(module, names, layout, batch, grid, width, vocabulary)
                else:
                    yield from _with_context(module, names, layout, batch, grid, width, vocabulary)
    if alike:
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
    if len(grid) == 2 and isinstance(module, nn.Module):  # an image asks a text
        for w in sizes.widths(module)[:6]:
            yield {names[0]: source, names[1]: Source(Layout("BLD"), batch, (grid[0] * grid[1] + 2,), w)}


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
    parameters = any(True for m in parts for _ in m.parameters(recurse=False)) or bool(sizes.held(module))
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
