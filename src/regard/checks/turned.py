"""Series as tokens: (B, L, C) of which weights fix the length and leave the number of channels free.

Tokens are what may be of any number, and channels what weights are as wide as. A forecaster that embeds whole series reads
(B, L, C) the other way round: C tokens of L numbers, and its output (B, horizon, C) follows them.
"""

from __future__ import annotations

from dataclasses import replace

from regard.checks.attempt import attempt_call
from regard.checks.call import Call
from regard.checks.case import Case
from regard.checks.layout import Layout
from regard.checks.subject import Subject

SERIES = 7
OTHER = (4, 9)  # other numbers of series, which must run too


def turned(case: Case) -> Case | None:
    """The same case with the series as tokens, where outputs follow those and do not follow time steps; else None."""
    if "turned" not in case.facts:
        call = _call(case)
        known = {k: case.facts[k] for k in ("init", "factory", "finite") if k in case.facts} | {"turned": None}
        case.facts["turned"] = None if call is None else replace(case, call=call, cross=None, facts=known, notes=[])
    return case.facts["turned"]


def series_are_tokens(subject: Subject, call: Call) -> bool:
    """Of a call with (B, C, L): do weights fix L, and does any C run?"""
    source = call.sources[call.query]
    others = (replace(source, grid=tuple(n + 3 for n in source.grid)), replace(source, width=source.width + 3))
    longer, wider = (attempt_call(subject, call.but(sources={**call.sources, call.query: s}), []) for s in others)
    return longer is None and wider is not None


def _call(case: Case) -> Call | None:
    source = case.call.sources[case.call.query]
    plain = source.layout.axes == "BLD" and source.vocabulary is None and source.patch == 1
    if case.call.follows or case.call.free_length or case.call.is_cross or not plain or case.masks or case.stochastic:
        return None
    for count in (*OTHER, SERIES):
        series = replace(source, layout=Layout("BDL"), grid=(count,), width=source.tokens)
        found = attempt_call(case.subject, case.call.but(sources={case.call.query: series}), [])
        if found is None or not found.follows or found.output_layout.axes != "BDL":
            return None
    return found
