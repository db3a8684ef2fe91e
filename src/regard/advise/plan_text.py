"""A plan as text of at most 80 columns."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regard.advise.planning import Plan, Way

WIDTH = 80
SHORT = {
    "weights": "weights",
    "optimizer": "AdamW",
    "cache": "cache",
    "gradients": "grads",
    "activations": "activations",
}


def text(plan: Plan) -> str:
    """Everything that the plan says."""
    return "\n".join([*_head(plan), "", *_table(plan), "", *_verdict(plan), *_ranks(plan), "", *_advice(plan)])


def size(count: float) -> str:
    """ "1.07 GB", "67 MB", "12 kB"; powers of ten.

    >>> size(1_073_741_824), size(67_108_864), size(12_000)
    ('1.07 GB', '67.1 MB', '12.0 kB')
    """
    for unit, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= unit:
            shown = count / unit
            return f"{shown:.{2 if shown < 10 else 1 if shown < 100 else 0}f} {name}"
    return f"{count:.0f} B"


def _head(plan: Plan) -> list[str]:
    work = plan.work
    what = {"forward": "one call", "train": "a training step (AdamW)", "generate": "a prompt into caches"}[work.way]
    mask = "causal" if work.is_causal else "every token sees all"
    if work.window is not None:
        mask = f"window of {work.window}{', causal' if work.is_causal else ' to each side'}"
    said = (
        f"{what}: {work.batch} x {work.length:,} tokens, {work.layers} layers of width {work.embed_dim} with {work.heads} heads "
        f"of {work.head_dim} ({work.shared} for keys), {work.dtype}, {mask}{f', {work.vocab:,} words' if work.vocab else ''}"
    )
    weights = size(plan.parameters * work.itemsize)
    learned = f"; {weights} of weights"
    if work.way == "train":
        learned += f", as much of gradients, {size(2 * plan.parameters * work.itemsize)} of AdamW"
    per_token = plan.cache / work.batch / work.length
    numbers = f"{plan.parameters:,} parameters{learned}; key-value cache {size(plan.cache)}, {size(per_token)} per token of a sample"
    return [*_wrapped(said, 0), *_wrapped(numbers, 0)]


def _table(plan: Plan) -> list[str]:
    kinds = [kind for kind in SHORT if any(way.parts[kind] for way in plan.ways)]
    header = ["attention", "TFLOP", *(SHORT[kind] for kind in kinds), "peak", *(["batch"] if plan.memory else [])]
    rows = [header]
    for way in plan.ways:
        row = [way.name, f"{way.flops / 1e12:.3g}", *(size(way.parts[kind]) for kind in kinds), size(way.peak)]
        rows.append([*row, f"{way.largest_batch:,}"] if plan.memory else row)
    widths = [max(len(row[i]) for row in rows) for i in range(len(header))]
    return [
        "  ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths))) for row in rows
    ]


def _verdict(plan: Plan) -> list[str]:
    if plan.memory is None:
        return _wrapped("The parts are those at the peak. With --memory: what fits.", 0)
    lines = _wrapped("The parts are those at the peak; batch: the most samples that fit.", 0)
    for way in plan.ways:
        lines += _wrapped(_of(plan, way), 0)
    return lines


def _of(plan: Plan, way: Way) -> str:
    assert plan.memory is not None
    peak = way.peak if way.per_rank is None else way.per_rank.peak
    if way.fits:
        return f"{way.name}: fits, {size(peak)} of {size(plan.memory)}."
    most = f"batch {way.largest_batch} fits" if way.largest_batch else "not even one sample fits"
    largest = max(way.parts, key=lambda kind: way.parts[kind])
    return f"{way.name}: runs out of memory, {size(peak)} of {size(plan.memory)}; {most}. Most of it is {largest}: {way.why}."


def _ranks(plan: Plan) -> list[str]:
    lines = []
    for way in plan.ways:
        if (rank := way.per_rank) is None:
            continue
        sent = "not possible, the ranks do not divide the heads" if rank.all_to_all is None else size(rank.all_to_all)
        lines += _wrapped(
            f"{way.name}, each of {rank.ranks} ranks: peak {size(rank.peak)}; sends per call {sent} (all-to-all) or "
            f"{size(rank.passed_on)} (keys passed on){', twice that in a training step' if rank.factor == 2 else ''}.",
            0,
        )
    return ["", *lines] if lines else []


def _advice(plan: Plan) -> list[str]:
    lines = []
    for advice in plan.advice:
        lines += _wrapped(
            f"{advice.about}: {advice.choose}. {advice.why[0].upper()}{advice.why[1:]}. [{advice.source}]", 0
        )
    return lines


def _wrapped(words: str, indent: int) -> list[str]:
    return textwrap.wrap(words, WIDTH, initial_indent=" " * indent, subsequent_indent=" " * (indent + 2))
