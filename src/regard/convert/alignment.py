"""Two models on the same input, module by module: the first place where they part, how far, and why.

The founding task of a port: the same weights were copied, the outputs differ, and the first module that differs says what
was done wrong. Torch with torch, or torch with Keras on the torch backend, in either order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from torch import Tensor

from regard.convert.align_explain import explain_input, explain_step
from regard.convert.align_pairs import Pair, pair
from regard.convert.align_record import Recording, record
from regard.convert.align_weights import Cause
from regard.core.errors import ConversionError

RELATIVE = 1e-4  # of the reference's largest number: float32 models of some layers keep 1e-5; mistakes are above 1e-3


@dataclass(frozen=True)
class Row:
    """Two steps that belong together.

    Attributes:
        reference, candidate: Their names.
        kind: What they do.
        difference: Largest difference of their outputs; infinite where a side has NaN alone or another shape.
        input_difference: The same of their inputs.
        allowed: From here on they part.
    """

    reference: str
    candidate: str
    kind: str
    difference: float
    input_difference: float
    allowed: float


@dataclass(frozen=True)
class Alignment:
    """What was compared.

    Attributes:
        rows: The steps in the order of the reference.
        parted: The first row that differs, or None.
        cause: Why, or None where all agree.
        difference: Of the outputs of the models.
        allowed: From here on they differ.
        unpaired: Steps of the reference, and of the candidate, that have no counterpart.
    """

    rows: list[Row]
    parted: Row | None
    cause: Cause | None
    difference: float
    allowed: float
    unpaired: tuple[list[str], list[str]] = field(default_factory=lambda: ([], []))

    @property
    def ok(self) -> bool:
        """Whether the outputs agree and no step differs."""
        return self.parted is None and self.difference <= self.allowed

    def json(self) -> dict[str, Any]:
        """Plain data; infinite numbers as text."""
        made = {
            "status": "aligned" if self.ok else "apart",
            "difference": self.difference,
            "allowed": self.allowed,
            "parted": None if self.parted is None else asdict(self.parted),
            "cause": None if self.cause is None else self.cause._asdict(),
            "rows": [asdict(row) for row in self.rows],
            "unpaired": {"reference": self.unpaired[0], "candidate": self.unpaired[1]},
        }
        return _finite(made)

    def __str__(self) -> str:
        width = max([len(row.reference) for row in self.rows] + [9])
        other = max([len(row.candidate) for row in self.rows] + [9])
        lines = [f"   {'reference':{width}}  {'candidate':{other}}  {'kind':10}  difference  input differs by"]
        for row in self.rows:
            mark = "=" if row.difference <= row.allowed else "x"
            lines.append(
                f"{mark}  {row.reference:{width}}  {row.candidate:{other}}  {row.kind:10}  {row.difference:10.1e}"
                f"  {row.input_difference:16.1e}"
            )
        lines.append(f"outputs differ by {self.difference:.2g} (allowed {self.allowed:.1g})")
        if self.parted is not None and self.cause is not None:
            place = "before" if self.parted.input_difference > self.parted.allowed else "in"
            lines.append(f"first apart {place} {self.parted.reference} / {self.parted.candidate}: {self.cause.text}")
            lines.append(f"cause: {self.cause.kind}")
        elif self.cause is not None:
            lines.append(f"cause: {self.cause.kind}: {self.cause.text}")
        lines.append(
            f"{len(self.rows)} steps compared, {sum(r.difference > r.allowed for r in self.rows)} differ, "
            f"{len(self.unpaired[0])} of the reference and {len(self.unpaired[1])} of the candidate without a counterpart"
        )
        return "\n".join(lines)


def align(
    reference: Any,
    candidate: Any,
    inputs: Tensor | Sequence[Tensor],
    *,
    named: Mapping[str, Any] | None = None,
    candidate_inputs: Tensor | Sequence[Tensor] | None = None,
    candidate_named: Mapping[str, Any] | None = None,
    pairs: Mapping[str, str] | None = None,
) -> Alignment:
    """Run both on the same input and find the first place where they part.

    Args:
        reference, candidate: Torch modules, or Keras models on the torch backend; run in eval mode and left as they were.
        inputs: By position.
        named: By keyword.
        candidate_inputs, candidate_named: Where the candidate is called otherwise, such as with a mask of the other
            polarity; None: as the reference.
        pairs: Names of steps of the reference -> names of the candidate's; None: by kind, size and order.

    Raises:
        ConversionError: A model that cannot be run, or models of which no step belongs together.
    """
    given = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    other = given if candidate_inputs is None else candidate_inputs
    other = [other] if isinstance(other, Tensor) else list(other)
    named = named or {}
    here = record(reference, given, named)
    there = record(candidate, other, named if candidate_named is None else candidate_named)
    found = pair(here.steps, there.steps, pairs)
    if not found:
        raise ConversionError(
            f"no step of the reference ({_names(here)}) has the kind and size of one of the candidate ({_names(there)}); "
            "name them with pairs="
        )
    rows = [_row(two) for two in found]
    parted = next((i for i, row in enumerate(rows) if not row.difference <= row.allowed), None)
    difference, allowed = _gap(here.output, there.output), _allowed(here.output)
    cause = None
    if parted is not None:
        r, c = found[parted]
        before = rows[parted].input_difference > rows[parted].allowed and bool(r.inputs) and bool(c.inputs)
        cause = explain_input(r, c, here, there) if before else explain_step(r, c)
    elif difference > allowed:
        cause = Cause(
            "after the last step", "every step that was compared agrees, and what is done with the last does not"
        )
    used = {id(step) for two in found for step in two}
    lone = tuple([s.name for s in run.steps if id(s) not in used] for run in (here, there))
    return Alignment(rows, None if parted is None else rows[parted], cause, difference, allowed, (lone[0], lone[1]))


def _row(two: Pair) -> Row:
    r, c = two
    inner = _gap(r.inputs[0], c.inputs[0]) if r.inputs and c.inputs else 0.0
    return Row(r.name, c.name, r.kind, _gap(r.output, c.output), inner, _allowed(r.output))


def _gap(r: Tensor, c: Tensor) -> float:
    if r.shape != c.shape:
        return math.inf
    gap = (r.double() - c.double()).abs()
    gap = gap.masked_fill(r.isnan() & c.isnan(), 0.0) if r.dtype.is_floating_point else gap
    return math.inf if bool(gap.isnan().any()) else float(gap.amax()) if gap.numel() else 0.0


def _allowed(r: Tensor) -> float:
    return RELATIVE * max(float(r.double().abs().nan_to_num(nan=0.0, posinf=0.0).amax()), 1e-3)


def _names(run: Recording) -> str:
    return ", ".join(f"{s.name} {tuple(s.output.shape)}" for s in run.steps[:6]) or "no steps at all"


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(x) for name, x in value.items()}
    if isinstance(value, list):
        return [_finite(x) for x in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
