"""One way to call a subject, tried: what runs becomes a `Call`, what does not leaves its error and how far it came."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch

from regard.checks.call import Call, Source
from regard.checks.layout import Layout
from regard.checks.outputs import float_tensors, main_tensor
from regard.checks.plan import AXES, Signature, fixed_arguments
from regard.checks.subject import Subject, describe_error, line_in


@dataclass(frozen=True)
class Failure:
    """Why a call did not run, and how far into the forward it came (the line)."""

    text: str
    line: int = 0
    axes: str = ""  # how the query lay


class NotCallable(Exception):
    """No way to call the subject was found; the text holds the error of the attempt that came furthest, `line` how far."""

    def __init__(self, text: str, line: int = 0) -> None:
        super().__init__(text)
        self.line = line


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
    every, odd, before = fixed_arguments(signature, sources[query].grid), None, len(errors)
    alike = failures_that_tell(signature)
    for fixed in every[1:] if further else every[:1]:
        if len(errors) - before >= alike and len(set(errors[-alike:])) == 1:  # it does not fail at these arguments
            return odd
        call = Call(sources, plan, fixed, query=query)
        found = attempt_call(subject, call, errors)
        if found is not None and found.arguments != plan:  # the streams changed places: so may what goes with them
            again = (attempt_call(subject, found.but(fixed=f), errors) for f in (fixed, *every))
            return next((a for a in again if a is not None and a.arguments == found.arguments), found)
        if found is not None and (not further or is_finite(subject, found)):
            return found
        odd = odd or found  # NaN may come from a mask that we made up
    return odd


def failures_that_tell(signature: Signature) -> int:
    """Equal failures in a row after which other values of the same arguments are left: one dtype in all shapes, and another."""
    doubled = any(n in signature.positions or n in signature.unknown for n in signature.required)
    return len(AXES) * (2 if doubled else 1) + 1


def is_finite(subject: Subject, call: Call) -> bool:
    """Has the main output neither NaN nor inf?"""
    generator = torch.Generator().manual_seed(1)
    tokens = {n: s.sample(generator) for n, s in call.sources.items()}
    raw = subject.call(call.lay_out(tokens, subject.dtype), module=subject.instance(fresh=True))
    return bool(torch.isfinite(call.main_output(raw)).all())


def attempt_call(subject: Subject, call: Call, errors: list[Failure]) -> Call | None:
    """This one call, with its output found, if it runs; else None, with the reason in `errors`."""
    generator = torch.Generator().manual_seed(1)
    tokens = {n: s.sample(generator) for n, s in call.sources.items()}
    try:  # on one object, since most attempts fail; what runs must also run on a fresh one
        kwargs = call.lay_out(tokens, subject.dtype)
        raw = subject.call(kwargs, module=subject.trial())
        raw = subject.call(kwargs, module=subject.instance(fresh=True))
    except Exception as error:
        errors.append(
            Failure(describe_error(error), line_in(error, subject.forward), call.sources[call.query].layout.axes)
        )
        return None
    query = call.sources[call.query]
    found = main_tensor(raw, query, call.sources[call.keys])
    if call.is_cross and (found is None or not found[2]):  # the stream that the output follows is the one that asks
        other = main_tensor(raw, call.sources[call.keys], query)
        if other is not None and other[2]:
            turned = {"query": call.sources[call.keys], "context": query}
            fed = {p: "context" if s == call.query else "query" for p, s in call.arguments.items()}
            found, call = other, call.but(sources=turned, arguments=fed, query="query")
    if found is None and query.layout.axes in ("BLD", "BL") and not call.is_cross and query.batch > 1:
        turned = replace(query, layout=Layout({"BLD": "LBD", "BL": "LB"}[query.layout.axes]))
        if main_tensor(raw, replace(turned, batch=query.tokens, grid=(query.batch,)), turned) is not None:
            return attempt_call(
                subject, call.but(sources={call.query: turned}), errors
            )  # sequence first, one output per item
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


def runs_with_fewer(subject: Subject, call: Call) -> bool:
    """Does the call run for one item less? What runs for three only may have met them as tokens."""
    generator = torch.Generator().manual_seed(1)
    fewer = call.but(sources={n: replace(s, batch=max(s.batch - 1, 1)) for n, s in call.sources.items()})
    try:
        subject.call(
            fewer.lay_out({n: s.sample(generator) for n, s in fewer.sources.items()}, subject.dtype),
            module=subject.trial(),
        )
    except Exception:
        return False
    return True


def reads_ids_as_numbers(subject: Subject, call: Call) -> bool:
    """Does it compute with the ids themselves, so that it gives the same for floats, with a gradient? A table is indexed: it refuses floats or rounds them."""
    names = [n for n, s in call.sources.items() if s.vocabulary is not None]
    if not names or not subject.is_module:
        return False
    generator = torch.Generator().manual_seed(1)
    tokens = {n: s.sample(generator) for n, s in call.sources.items()}
    numbers = {n: tokens[n].to(subject.dtype).requires_grad_() for n in names}
    try:
        ids = call.main_output(subject.call(call.lay_out(tokens, subject.dtype), module=subject.trial()))
        out = call.main_output(
            subject.call(call.lay_out({**tokens, **numbers}, subject.dtype), module=subject.trial(), grad=True)
        )
        grads = torch.autograd.grad(out.sin().sum(), list(numbers.values()), allow_unused=True)
    except Exception:
        return False
    same = out.shape == ids.shape and bool(torch.allclose(out.detach(), ids, rtol=1e-3, atol=1e-4))
    return same and any(g is not None and bool((g != 0).any()) for g in grads)


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
