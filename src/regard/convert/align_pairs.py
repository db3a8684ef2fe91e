"""Which step of one model belongs to which step of the other: same kind, same sizes, same order.

The longest common sequence of (kind, shape). What stands inside an attention counts where both models show it.
"""

from __future__ import annotations

from collections.abc import Mapping

from regard.convert.align_record import Step
from regard.core.errors import ConversionError

Pair = tuple[Step, Step]


def pair(reference: list[Step], candidate: list[Step], said: Mapping[str, str] | None = None) -> list[Pair]:
    """The steps of both that belong together, in the order of the reference.

    Args:
        said: Names of the reference -> names of the candidate; None: found by order.

    Raises:
        ConversionError: A name that no step has.
    """
    if said is not None:
        return _named(reference, candidate, said)
    reference, candidate = _comparable(reference, candidate), _comparable(candidate, reference)
    rows, columns = len(reference), len(candidate)
    best = [[0] * (columns + 1) for _ in range(rows + 1)]
    for i in range(rows - 1, -1, -1):
        for j in range(columns - 1, -1, -1):
            same = _key(reference[i]) == _key(candidate[j])
            best[i][j] = 1 + best[i + 1][j + 1] if same else max(best[i + 1][j], best[i][j + 1])
    pairs: list[Pair] = []
    i = j = 0
    while i < rows and j < columns:
        if _key(reference[i]) == _key(candidate[j]):
            pairs.append((reference[i], candidate[j]))
            i, j = i + 1, j + 1
        elif best[i + 1][j] >= best[i][j + 1]:
            i += 1
        else:
            j += 1
    return pairs


def _key(step: Step) -> tuple[str, tuple[int, ...]]:
    return step.kind, tuple(step.output.shape)


def _comparable(steps: list[Step], others: list[Step]) -> list[Step]:
    """Without what stands inside attention where the other model shows nothing inside of it, and without activations
    that the other calls as functions."""
    inside = _inside(others)
    kept = steps if inside else [step for step in steps if not _within(step, steps)]
    activations = any(step.kind == "activation" for step in others)
    return kept if activations else [step for step in kept if step.kind != "activation"]


def _inside(steps: list[Step]) -> bool:
    return any(_within(step, steps) for step in steps)


def _within(step: Step, steps: list[Step]) -> bool:
    """Whether a step's name stands under that of an attention."""
    holders = [other.name for other in steps if other.kind == "attention" and other is not step]
    return any(step.name.startswith((f"{name}.", f"{name}/")) for name in holders)


def _named(reference: list[Step], candidate: list[Step], said: Mapping[str, str]) -> list[Pair]:
    here, there = {step.name: step for step in reference}, {step.name: step for step in candidate}
    for name, steps, side in (
        (n, s, w) for a, b in said.items() for n, s, w in ((a, here, "reference"), (b, there, "candidate"))
    ):
        if name not in steps:
            raise ConversionError(f"the {side} has no step {name!r}; it has {', '.join(list(steps)[:12])}")
    chosen = [(here[a], there[b]) for a, b in said.items()]
    return sorted(chosen, key=lambda two: reference.index(two[0]))
