"""How much room a cache has makes no difference."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from regard.checks.case import Case, NotExercised, Verdict
from regard.checks.infer_cache import MAKERS, CacheUse, chunks, open_stream, runs_forward
from regard.checks.rule import rule
from regard.checks.subject import describe_error

TOTAL = 8
ROOMS = (TOTAL, TOTAL + 5, 64)
NO_STATIC = ("_supports_static_cache", "_can_compile_fullgraph")  # what transformers' models say of themselves
PLANS = ((4, 1, 1, 1, 1), (3, 2, 3), (TOTAL,))


@rule("ATT206", kinds=("cache-occupancy", "cache-mask"))
def cache_room(case: Case) -> Verdict | None:
    """A cache of fixed size, filled to the brim or mostly empty, gives what one call without a cache gives.

    Tried with what the module makes for a batch and a length, and with the static cache of transformers where a model takes
    its caches.
    What goes wrong: slots that were never written take part, the mask is as long as what was written and not as the cache,
    the last slot is never used.
    Why it matters: a static cache is what compiled generation uses; its size is a setting, not a part of the model.

    Bad:
        weights = (q @ cache.keys.mT).softmax(-1)                      # unwritten slots have the score 0
    Good:
        scores.masked_fill(torch.arange(room) >= written, float("-inf")).softmax(-1)
    """
    case.need(case.cache is not None, "no key-value cache was found")
    case.need(runs_forward(case), "a plain call is not causal, so the pieces cannot equal the whole")
    case.need_determinism()
    make = _maker(case)
    if make is None:
        raise NotExercised("its cache has no size that can be chosen")
    batch = case.sample(6, tokens={case.call.query: TOTAL})
    whole, ran, reason = case.run(batch), 0, ""
    for room in ROOMS:
        for plan in PLANS:
            try:
                stream = open_stream(case, _with_room(case, make, room))
                got = torch.cat([stream.feed(c) for c in chunks(case.call, batch, plan)], 1)
            except Exception as error:
                reason = describe_error(error)
                continue
            ran += 1
            change = case.difference(got, whole)
            if change > case.big:
                return Verdict(
                    "error",
                    f"through a cache with room for {room} tokens, the output of {TOTAL} differs from one call by {change:.2g} (relative)",
                    kind="cache-occupancy",
                    measured=change,
                    allowed=case.tolerance,
                    example=f"length {TOTAL} in chunks {', '.join(map(str, plan))}, room {room}",
                    cause="slots that hold nothing take part, or slots that hold something do not",
                    fix="hide exactly the slots at and beyond the number of tokens written",
                )
    case.need(ran > 0, f"a cache of fixed size does not run: {reason}")
    return None


def _with_room(case: Case, make: Callable[[int], Any], room: int) -> CacheUse:
    assert case.cache is not None, "rules on rooms need a cache"
    return replace(case.cache, style="filled", make=lambda: make(room))


def _maker(case: Case) -> Callable[[int], Any] | None:
    """Room -> a cache: the module's own maker, or transformers' static cache for a model with a configuration."""
    assert case.cache is not None, "rules on rooms need a cache"
    module, items = case.subject.pristine, case.call.sources[case.call.query].batch
    if case.cache.parameter is None or case.call.is_cross:
        return None
    for name in MAKERS:
        if callable(getattr(module, name, None)):
            return lambda room: getattr(case.subject.instance(), name)(items, room)
    if any(getattr(module, flag, True) is False for flag in NO_STATIC):
        return None  # the author says that a static cache is not for it
    annotation = str(case.subject.signature().parameters[case.cache.parameter].annotation)
    config = getattr(module, "config", None)
    if "transformers" in annotation and config is not None and not inspect.isclass(config):
        return lambda room: _static(config, room)
    return None


def _static(config: Any, room: int) -> Any:
    from transformers import StaticCache

    return StaticCache(config=config, max_cache_len=room)
