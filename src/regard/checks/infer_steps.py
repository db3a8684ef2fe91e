"""A method beside forward that takes the sequence a piece at a time and remembers: step(x), decode_step(x, memory)."""

from __future__ import annotations

import inspect
import re
from typing import Any

import torch

from regard.checks.case import Case
from regard.checks.infer_cache import RESET, CacheUse, open_stream, remembers, resets

STEP = re.compile(
    r"(forward_|decode_|decoding_|inference_|infer_|incremental_|streaming_?|online_|generate_)?step"
    r"|step_(forward|decode|one|by_step)|forward_(one|incremental|incrementally|streaming|online|cached|chunk)"
    r"|incremental(_forward|_decode)?|decode_(one|next)(_token)?|stream|extend|advance|next_(token|step|chunk)"
)
BEGINS = r"(re)?(set|begin|start|load|prefill|prime|encode|new|attach|clear|init|remember|observe)\w*"
TOTAL = 4


def infer_step(case: Case) -> CacheUse | None:
    """The first such method that begins like forward and reacts to what it was given before."""
    for use in _step_uses(case):
        try:
            if _begins_like_forward(case, use) and remembers(case, use):
                return use
        except Exception:  # this method is for something else; the next is tried
            continue
    return None


def _step_uses(case: Case) -> list[CacheUse]:
    """Every such method that can be called with the arguments of a plain call."""
    if not case.subject.is_module:
        return []
    found = []
    for name, method in inspect.getmembers(type(case.subject.pristine), inspect.isfunction):
        if STEP.fullmatch(name) is None:
            continue
        names = _argument_names(case, method)
        if names is not None:
            found.append(CacheUse("internal", reset=next(iter(resets(case)), None), method=name, renamed=names))
    return found


def _argument_names(case: Case, method: Any) -> dict[str, str] | None:
    """Argument of forward -> argument of the method: by name, or the required ones in their order."""
    given = [*case.call.arguments, *case.call.fixed]
    parameters = [p for p in inspect.signature(method).parameters.values() if p.name != "self"]
    required = [
        p.name for p in parameters if p.default is p.empty and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
    ]
    if set(required) <= set(given) <= {p.name for p in parameters}:
        return {n: n for n in given}
    return dict(zip(given, required)) if len(required) == len(given) else None


def _begins_like_forward(case: Case, use: CacheUse) -> bool:
    """Are the first outputs, one token at a time, what forward gives for them? Only then do both promise the same."""
    batch = case.sample(5, tokens={case.call.query: TOTAL})
    first = {n: x[:, :1] if n == case.call.query else x for n, x in batch.items()}
    got, want = open_stream(case, use).feed(first), case.run(batch)[:, :1]
    return bool(torch.isfinite(got).all()) and case.difference(got, want) <= case.big


def begins_elsewhere(case: Case) -> str | None:
    """A public method that takes the context of the call: it, and no reset, may be how the author begins with another one."""
    if not case.call.is_cross:
        return None
    context = {a for a, s in case.call.arguments.items() if s != case.call.query}
    for name, method in inspect.getmembers(type(case.subject.pristine), inspect.isfunction):
        if hasattr(torch.nn.Module, name) or name in RESET or re.fullmatch(BEGINS, name) is None:
            continue
        if context & set(inspect.signature(method).parameters):
            return name
    return None
