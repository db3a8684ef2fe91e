"""With a cache, piece by piece, the output is that of one call."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch import Tensor

from regard.checks.cache_cause import cache_cause
from regard.checks.case import Batch, Case, Verdict
from regard.checks.infer_cache import chunks, open_stream, resets, runs_forward
from regard.checks.infer_steps import begins_elsewhere
from regard.checks.influence import replace_token
from regard.checks.rule import rule

PLANS = ((4, 1, 1, 1, 1), (1,) * 8, (3, 2, 3), (2, 2, 2, 2), (5, 3))


LOSSY = r"\b(de)?compress(ed|es|ive|ion)?\b|\bsqueez(ed|es|ing)\b|\bsummar(y|ies|ised|ized)\b|\blossy\b"


@rule(
    "ATT203",
    kinds=(
        "cache-rope-offset",
        "cache-position-bias",
        "cache-order",
        "cache-occupancy",
        "causal-missing-in-prefill",
        "causal-alignment",
        "window-off-by-one",
        "cache-mask",
    ),
)
def cached_equals_full(case: Case) -> Verdict | None:
    """Feeding a sequence in chunks of 1, 2, 3 and more through the cache gives the output of one call on all of it.

    What goes wrong: positions restart at 0 in each step, a relative bias uses the query length, keys are appended in the
    wrong order, is_causal=True with fewer queries than keys, no mask in a prefill of several tokens, unwritten slots that
    take part, another window when decoding. Where a method of its own takes the pieces (step, decode_step) and begins like
    the call, it gets one token at a time.
    Why it matters: generation differs from what was trained, a little at every step.

    Bad:
        q = rotate(q, torch.arange(q.size(-2)))                 # 0 at every step
    Good:
        q = rotate(q, past_length + torch.arange(q.size(-2)))
    """
    case.need(
        case.cache is not None,
        "no key-value cache was found"
        if not (case.signature.caches or case.signature.cache_positions)
        else "the cache argument could not be used in a way that we know",
    )
    case.need(runs_forward(case), "a plain call is not causal, so the pieces cannot equal the whole")
    case.need_determinism()
    total = 8
    batch = case.sample(6, tokens={case.call.query: total})
    whole = case.run(batch) if case.cache.style != "slots" else open_stream(case).feed(batch)
    results: dict[tuple[int, ...], float] = {}
    for plan in PLANS if case.cache.method is None else ((1,) * total,):
        try:
            results[plan] = _difference(case, batch, whole, plan)
        except Exception as error:
            case.notes.append(f"cache in chunks {plan} did not run: {type(error).__name__}: {str(error)[:80]}")
    case.need(bool(results), "no chunking runs through the cache")
    bad = {p: d for p, d in results.items() if d > case.big}
    if not bad:
        return None
    plan = min(bad, key=lambda p: (len(p), p))
    most = _remembered(case, batch) if (1,) * total in results else None
    if most is not None:
        return Verdict(
            "question",
            f"the cache remembers {most} tokens, and one call on {total} sees them all: is it meant to forget?",
            kind="cache-occupancy", measured=f"{most} tokens", allowed=f"{total} tokens", example=f"{total} tokens, one at a time",
        )  # fmt: skip
    kind, cause, fix = cache_cause(case, batch, whole, results, case.big)
    lossy = case.evidence.says(LOSSY)
    if lossy is not None:
        return Verdict(
            "question", f"fed in chunks {', '.join(map(str, plan))}, the output differs from one call by {bad[plan]:.2g} (relative); the text says {lossy!r}: is the memory meant to lose something?",
            kind=kind, measured=bad[plan], allowed=case.tolerance, example=f"length {total} in chunks {plan}", cause=cause, fix=fix,
        )  # fmt: skip
    return Verdict(
        "error", f"fed in chunks {', '.join(map(str, plan))} through the cache, the output differs from one call by {bad[plan]:.2g} (relative)",
        kind=kind, measured=bad[plan], allowed=case.tolerance, example=f"length {total} in chunks {plan}; right for {[p for p in results if p not in bad]}", cause=cause, fix=fix,
    )  # fmt: skip


def _difference(case: Case, batch: Batch, whole: Tensor, plan: tuple[int, ...]) -> float:
    """With masks that are always needed over the new tokens alone, or over all tokens so far: what the author means is what agrees."""
    needed = [m for m in case.masks if m.parameter in case.signature.required and m.source == case.call.query]
    found: list[float] = []
    for over_all in (False, True) if needed else (False,):
        stream, pieces = open_stream(case), []
        try:
            for chunk in chunks(case.call, batch, plan):
                items, new = chunk[case.call.query].shape[:2]
                keep = torch.ones(items, stream.position + new, dtype=torch.bool)
                given = {n: x for m in needed for n, x in m.arguments(keep, new, case.subject.dtype).items()}
                pieces.append(stream.feed(chunk, given if over_all else None))
        except Exception:
            if not over_all and not needed:
                raise
            continue
        found.append(case.difference(torch.cat(pieces, 1), whole))
    if not found:
        raise ValueError("neither a mask of the new tokens nor one of all so far runs")
    return min(found)


def _tensors(state: Any) -> list[torch.Tensor]:
    parts = list(state.values()) if isinstance(state, dict) else state
    if isinstance(parts, (tuple, list)):
        return [x for part in parts for x in _tensors(part)]
    return [state] if isinstance(state, torch.Tensor) else []


def _remembered(case: Case, batch: Batch) -> int | None:
    """How many tokens a cache that is handed back holds at most, where one call sees more than that and both agree up to there."""
    if case.cache is None or case.cache.style != "returned":
        return None
    stream, sizes = open_stream(case), []
    for chunk in chunks(case.call, batch, (1,) * 8):
        stream.feed(chunk)
        sizes.append([n for x in _tensors(stream.state) for n in x.shape])
    if any(len(s) != len(sizes[0]) for s in sizes):
        return None
    axes = [axis for axis in zip(*sizes, strict=True) if axis[0] != axis[1]]
    held = {max(axis) for axis in axes if axis[-1] == axis[-2]}
    if len(held) != 1 or any(axis[-1] != axis[-2] for axis in axes):
        return None
    most = next(iter(held))
    begin = {n: x[:, :most] if n == case.call.query else x for n, x in batch.items()}
    stream = open_stream(case)
    pieces = [stream.feed(c) for c in chunks(case.call, begin, (1,) * most)]
    agree = case.difference(torch.cat(pieces, 1), case.run(begin)) <= case.big
    first = {n: x.clone() for n, x in batch.items()}
    replace_token(first[case.call.query], 0, 0, number=3, size=3.0)
    far = case.difference(case.run(first)[:, -1:], case.run(batch)[:, -1:]) > case.tolerance
    return most if agree and far else None


@rule("ATT204", kinds=("cache-stale",))
def fresh_sequence(case: Case) -> Verdict | None:
    """After the reset that the author offers, a second sequence gives what a new module gives.

    What goes wrong: the reset clears a counter and not the tensors; a module keeps its cache and offers no reset; a table
    computed for one call is kept for the next.
    Why it matters: every conversation continues the one before.

    Bad:
        def reset(self): self.start_pos = 0
    Good:
        def reset(self): self.start_pos = 0; self.k_cache = self.v_cache = None
    """
    case.need(case.cache is not None, "no key-value cache was found")
    case.need_determinism()
    kept = case.cache.reset is None and case.cache.style == "internal"
    case.need(not kept or case.cache.method is None, "no method by whose name a sequence begins anew was found")
    change = None if kept and case.cache.position is None else _after_reset(case, [])
    if change is None or (kept and change > case.big):  # a position of 0 may begin anew
        return Verdict(
            "warning",
            "it keeps keys and values between calls and offers no reset: a second sequence continues the first",
            kind="cache-stale",
            measured="no reset method",
            allowed="a reset",
            cause="the cache is an attribute that is never cleared",
            fix="add reset_cache(), or pass the cache in and out",
        )
    others = [r for r in resets(case) if r != case.cache.reset]
    if change <= case.big or (others and _after_reset(case, others) <= case.big):
        return None
    elsewhere = begins_elsewhere(case)
    return Verdict(
        "error" if elsewhere is None else "question",
        f"after {case.cache.reset or 'starting anew'}, a second sequence differs by {change:.2g} (relative) from a new module's"
        + ("" if elsewhere is None else f": is {elsewhere} to be called too?"),
        kind="cache-stale",
        measured=change,
        allowed=case.tolerance,
        example="5 tokens, reset, 4 tokens",
        cause="something of the first sequence survives the reset",
        fix="clear the key and value tensors, not only the position",
    )


def _after_reset(case: Case, others: list[str]) -> float:
    """How far a second sequence is from a new module's, after the reset of the cache and whatever else is offered."""
    first, second = case.sample(7, tokens=5), case.sample(8, tokens=4)
    fresh, stream = open_stream(case), open_stream(case)
    feed = [s.feed if case.cache.method is None else s.feed_singly for s in (fresh, stream)]
    feed[1](first)
    stream.reset()
    for name in others:
        with contextlib.suppress(Exception):  # it may want arguments
            getattr(stream.module, name)()
    return case.difference(feed[1](second), feed[0](second))
