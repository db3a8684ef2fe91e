"""A call that the author declared, instead of one that was found by trying."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from regard.checks.call import Call, Source
from regard.checks.design import Design
from regard.checks.infer import attempt
from regard.checks.layout import Layout
from regard.checks.plan import Signature
from regard.checks.subject import Subject

AXES = {
    "BLD": "BLD",
    "LBD": "LBD",
    "BCHW": "BDHW",
    "BHWC": "BHWD",
    "BCL": "BDL",
    "BHLD": "BKLD",
    "LD": "LD",
    "BL": "BL",
}
BATCH = 3  # a declared batch of one says nothing of batches


def declared_call(subject: Subject, signature: Signature, design: Design) -> Call | None:
    """The call that `design.inputs` and `design.layout` describe, if it runs."""
    if not design.inputs or not design.layout:
        return None
    layout = Layout(AXES[design.layout])
    sources, arguments = _sources(design, layout)
    if sources is None:
        return None
    for batch in (BATCH, None):
        sized = {n: _with_batch(s, batch) for n, s in sources.items()}
        call = attempt(subject, signature, arguments, sized, [])
        if call is not None:
            return _output_of_the_query(subject, signature, call, arguments, sized)
    return None


def _output_of_the_query(
    subject: Subject, signature: Signature, call: Call, arguments: dict[str, str], sources: dict[str, Source]
) -> Call:
    """Where two streams of one length give an output each: the one that keeps its length when the other stream is longer."""
    if len(sources) != 2 or len({s.grid for s in sources.values()}) != 1 or len(sources["query"].grid) != 1:
        return call
    context = replace(sources["context"], grid=(sources["context"].tokens + 2,))
    other = attempt(subject, signature, arguments, {**sources, "context": context}, [])
    if other is None or other.arguments != call.arguments or not other.follows:
        return call
    return call.but(output=other.output, output_layout=other.output_layout)


def _with_batch(source: Source, batch: int | None) -> Source:
    return (
        source
        if batch is None or source.batch >= 2
        else Source(source.layout, batch, source.grid, source.width, source.heads, source.vocabulary)
    )


def _sources(design: Design, layout: Layout) -> tuple[dict[str, Source] | None, dict[str, str]]:
    sources: dict[str, Source] = {}
    arguments: dict[str, str] = {}
    inputs: dict[str, Any] = dict(design.inputs or {})
    real = {p: shape for p, shape in inputs.items() if not isinstance(shape, str)}
    for p, shape in real.items():
        if len(shape) != len(layout.axes):
            return None, {}
        name = "x" if len(real) == 1 else ("query" if p == (design.query or next(iter(real))) else "context")
        size = dict(zip(layout.axes, shape))
        grid = tuple(int(size[a]) for a in layout.token_axes)
        sources[name] = Source(layout, int(size.get("B", 1)), grid, int(size.get("D", 1)), int(size.get("K", 1)))
        arguments[p] = name
    for p, same in inputs.items():
        if isinstance(same, str):
            arguments[p] = arguments[same]
    return sources, arguments
