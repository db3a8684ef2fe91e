"""The rows of a run, sorted for the rules: layers over time, losses, validations, memory.

Nothing here imports torch. Missing numbers are NaN; a row that lacks a field lacks it, and rules skip what they cannot read.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

Row = Mapping[str, Any]
NAN = float("nan")


@dataclass
class Layer:
    """One attention layer: its rows in training, by step, and in evaluation."""

    number: int
    path: str
    rows: list[Row] = field(default_factory=list)
    evals: list[Row] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"layer {self.number} {self.path}".strip()

    @property
    def where(self) -> str:
        return next((str(r["where"]) for r in reversed([*self.rows, *self.evals]) if r.get("where")), "")

    def heads(self, score: str) -> list[list[float]]:
        """Per record, one number per head."""
        return [[NAN if x is None else float(x) for x in r.get(score) or []] for r in self.rows]

    def mean(self, score: str) -> list[float]:
        """Per record, the mean over the heads where it is known."""
        return [mean(heads) for heads in self.heads(score)]

    def number_at(self, name: str) -> list[float]:
        """Per record, a number of the row."""
        return [NAN if r.get(name) is None else float(r[name]) for r in self.rows]

    def typical(self, name: str) -> Any:
        """The last known value of a field."""
        return next((r[name] for r in reversed(self.rows) if r.get(name) is not None), None)


@dataclass
class Run:
    """A whole run. `losses`, `validations` and `memory` are (step, value); `steps` are the rows without a layer."""

    layers: list[Layer]
    steps: list[Row]
    losses: list[tuple[int, float]]
    validations: list[tuple[int, float]]
    memory: list[tuple[int, float]]
    baseline: float | None
    last_step: int

    @property
    def records(self) -> int:
        """Recorded steps."""
        return max((len(layer.rows) for layer in self.layers), default=0)

    def path(self, path: str) -> Layer | None:
        return next((layer for layer in self.layers if layer.path == path), None)


def run_of(rows: Iterable[Row]) -> Run:
    """Sort the rows of `watch`."""
    layers: dict[int, Layer] = {}
    steps: list[Row] = []
    baseline = None
    for row in rows:
        if "watch" in row:
            baseline = row.get("baseline")
        elif "layer" in row:
            number = int(row["layer"])
            layer = layers.setdefault(number, Layer(number, str(row.get("path", ""))))
            (layer.evals if "eval_pass" in row else layer.rows).append(row)
        elif "step" in row:
            steps.append(row)
    last = max((int(r["step"]) for r in [*steps, *(r for la in layers.values() for r in la.rows)]), default=-1)
    return Run(
        layers=[layers[n] for n in sorted(layers)], steps=steps, losses=_series(steps, "loss"),
        validations=_series(steps, "validation_loss"), memory=_series(steps, "memory"), baseline=baseline, last_step=last,
    )  # fmt: skip


def _series(steps: list[Row], name: str) -> list[tuple[int, float]]:
    return [(int(r["step"]), float(r[name])) for r in steps if isinstance(r.get(name), (int, float))]


def mean(values: Iterable[float]) -> float:
    """Of the known values; NaN if there is none."""
    known = [v for v in values if not math.isnan(v)]
    return fmean(known) if known else NAN


def known(values: Iterable[float]) -> list[float]:
    return [v for v in values if not math.isnan(v)]
