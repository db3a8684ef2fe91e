"""A causal module sees the whole of the past, or a window of it, at every length."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.checks.case import Case, Verdict
from regard.checks.influence import influence
from regard.checks.memory_keys import triangle_over_the_memory
from regard.checks.rule import rule
from regard.checks.sites import watch

CHUNK_NAMES = r"(chunk|block|bucket|segment|window|local)_?(size|len(gth)?)?|c(hunk)?_?size|bs|w"
OTHERS = 6  # other inputs, of some items each, for which a boundary must stand where it stood
LOCAL_WORDS = r"local|window|block[- ]?(sparse|local|wise)|chunked attention|bucket|sparse|dilated|strided|hash|lsh|segment|look[-_ ]?back|previous (chunk|block)s?"


@rule("ATT202", kinds=("chunk-boundary", "chunk-tail", "causal-missing", "causal-alignment"))
def past_is_seen(case: Case) -> Verdict | None:
    """Where a causal module sees all of a short past, it sees all of a longer one.

    Measured at the known length and around multiples of the chunk that its attributes name, and with a memory in front of the keys.
    What goes wrong: a chunked computation drops the carried state at a chunk boundary, or the tail that fills no chunk; or the
    triangle begins at the first key of a memory (`is_causal=True` with more keys than queries).
    Why it matters: memory ends every 64 tokens; tests with 10 tokens do not see it.

    Bad:
        state = 0 at the start of every chunk
    Good:
        state carried from chunk to chunk
    """
    case.need_determinism()
    over = triangle_over_the_memory(case)
    if over is not None:
        return over
    case.need(bool(case.facts.get("causal")), "it is not causal")
    case.need(case.call.free_length, "one length only")
    case.need(case.evidence.says(LOCAL_WORDS) is None, "it is local by its own words")
    size = case.evidence.number(CHUNK_NAMES)
    lengths = [size + 1, 2 * size + 1, 3 * size - 1] if size and 1 < size <= 40 else [24, 50]
    for n in lengths:
        try:
            found = influence(case, tokens=n)
        except Exception:
            continue
        if not found.square:
            continue
        if not found.causal:
            return _no_longer_causal(case, n, size, float(found.change.triu(1).max()))
        missing = _missing(found.sees)
        if missing is not None and not _faint(case, n, *missing) and not _by_content(case, n, *missing):
            t, first = missing
            asked = ": is that window meant?" if t > first and _keys_of_earlier_blocks(case, n) else ""
            return Verdict(
                "question" if asked else "error",
                f"at length {n}, the output of token {t} sees the past only from token {first} on, and token {t - 1} sees it from the start{asked}",
                kind="chunk-boundary",
                measured=first,
                allowed=0,
                example=f"length {n}" + (f", chunks of {size}" if size else ""),
                cause="blocks are given the keys of some blocks before them, not of all"
                if asked
                else "the state is not carried over the chunk boundary",
                fix="say that it is local"
                if asked
                else "carry the key-value state (and the normaliser) from chunk to chunk",
            )
    return None


def _no_longer_causal(case: Case, length: int, size: int | None, worst: float) -> Verdict:
    short = case.call.sources[case.call.query].tokens
    return Verdict(
        "error",
        f"it is causal at length {short} and sees the future at length {length}",
        kind="causal-missing",
        measured=worst,
        allowed=case.tolerance,
        example=f"length {length}" + (f", pieces of {size}" if size else ""),
        cause="longer inputs take another path, which has no causal mask",
        fix="mask every piece with the positions of its queries",
    )


def _faint(case: Case, length: int, row: int, first: int) -> bool:
    """Does some gradient, however small, lead back to what the row does not see? Weights that decay are no boundary."""
    name = case.call.query
    leaves = {k: x.clone().requires_grad_(x.is_floating_point()) for k, x in case.sample(tokens=length).items()}
    if not leaves[name].requires_grad:
        return False
    out = case.run(leaves, grad=True)
    if not out.requires_grad:
        return False
    (grad,) = torch.autograd.grad(out[0, row].square().sum(), [leaves[name]])
    return bool((grad[0, :first] != 0).any())


def _by_content(case: Case, length: int, row: int, first: int) -> bool:
    """With other tokens, does the row depend on what it did not see here? A boundary is a place; what a router leaves out is content."""
    for number in range(1, OTHERS + 1):
        batch = case.sample(number, tokens=length)
        other = case.sample(number + OTHERS, tokens=length)
        moved = {n: x.clone() for n, x in batch.items()}
        moved[case.call.query][:, :first] = other[case.call.query][:, :first]
        if case.difference(case.run(moved)[:, row], case.run(batch)[:, row]) > case.tolerance:
            return True
    return False


def _keys_of_earlier_blocks(case: Case, length: int) -> bool:
    """Is each block of queries given more keys than its own, and fewer than there are tokens: a window of blocks?"""
    sites = watch(case, case.sample(tokens=length)).sites
    shapes = [s.shape for s in sites if s.kind != "other" and s.shape is not None]
    return bool(shapes) and all(1 < shape[-2] < shape[-1] < length for shape in shapes)


def _missing(sees: Tensor) -> tuple[int, int] | None:
    """The first row that loses what the row before saw from the start on, by more than one token at once."""
    for t in range(2, sees.shape[0]):
        before, now = sees[t - 1, :t], sees[t, : t + 1]
        if bool(before.all()) and not bool(now[0]):
            first = int(now.nonzero()[0]) if bool(now.any()) else t
            if first >= 2:
                return t, first
    return None
