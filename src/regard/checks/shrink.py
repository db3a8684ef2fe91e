"""The smallest input on which a rule still fails: fewer items, fewer tokens, found by trying from the smallest up."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from typing import Any

from regard.checks.call import Call
from regard.checks.case import Case, Verdict
from regard.checks.rule import Rule

SECONDS = 2.0
KEPT = ("causal", "init", "factory")


def shrink(case: Case, rule: Rule, verdict: Verdict) -> tuple[Case, Verdict]:
    """A case of the smallest batch and length that gives a verdict of the same level and kind, and that verdict."""
    start = time.process_time()
    source = case.call.sources[case.call.query]
    if len(source.grid) != 1 or not (case.call.free_length or case.call.free_batch):
        return case, verdict
    lengths = range(2, source.tokens) if case.call.free_length else ()
    sizes = [
        (b, n)
        for n in (*lengths, source.tokens)
        for b in ((1, 2, source.batch) if case.call.free_batch else (source.batch,))
        if b <= source.batch
    ]
    for batch, tokens in sizes:
        if (batch, tokens) == (source.batch, source.tokens) or time.process_time() - start > SECONDS:
            break
        small = _resized(case, batch, tokens)
        try:
            got = rule.function(small)
        except Exception:
            continue
        found = _same(got if isinstance(got, list) else [got], verdict)
        if found is not None:
            return small, found
    return case, verdict


def _same(got: list[Any], verdict: Verdict) -> Verdict | None:
    """The verdict of this level and kind; of several, the one that says the same in other numbers."""
    alike = [v for v in got if isinstance(v, Verdict) and (v.level, v.kind) == (verdict.level, verdict.kind)]
    if len(alike) <= 1:
        return alike[0] if alike else None
    return next((v for v in alike if _words(v) == _words(verdict)), None)


def _words(verdict: Verdict) -> str:
    return re.sub(r"[-+\d.]+(e[-+]?\d+)?", "", verdict.message)


def _resized(case: Case, batch: int, tokens: int) -> Case:
    calls = [
        _smaller(c, batch, tokens - case.call.sources[case.call.query].tokens) if c is not None else None
        for c in (case.call, case.cross)
    ]
    facts = {k: case.facts[k] for k in KEPT if k in case.facts}
    return replace(case, call=calls[0], cross=calls[1], facts=facts, notes=[])


def _smaller(call: Call, batch: int, by: int) -> Call:
    sources = {
        n: replace(s, batch=batch, grid=(max(2, s.tokens + by),)) if len(s.grid) == 1 else replace(s, batch=batch)
        for n, s in call.sources.items()
    }
    return call.but(sources=sources)
