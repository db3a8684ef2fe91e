"""One subject with its inferred call: what every rule works on. Rules see tokens (B, N, F) in, tokens (B, M, F) out.

Numbers: a difference is relative to the largest value of what is compared. Below `tolerance` two results are equal;
above `BIG` they differ; between the two nothing is said.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from regard.checks.call import Call
from regard.checks.design import Design
from regard.checks.evidence import Evidence
from regard.checks.mask_use import MaskUse
from regard.checks.plan import Signature
from regard.checks.report import Finding
from regard.checks.subject import Subject

TOLERANCE = {torch.float64: 1e-6, torch.float32: 2e-4}  # float32: some modules keep tables that cannot be cast
BIG = {torch.float64: 1e-4, torch.float32: 5e-3}

Batch = dict[str, Tensor]  # source -> (B, N, F)


class NotExercised(Exception):
    """A rule could not be applied; the text says why and what would let it."""


@dataclass
class Case:
    """What is examined, and everything known of it."""

    subject: Subject
    call: Call
    signature: Signature
    evidence: Evidence
    design: Design = field(default_factory=Design)
    cross: Call | None = None
    masks: list[MaskUse] = field(default_factory=list)
    cache: Any = None
    stochastic: bool = False  # eval gives other numbers with another seed
    dropout: float = 0.0
    seed: int = 0
    facts: dict[Any, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def tolerance(self) -> float:
        return TOLERANCE[self.subject.dtype]

    @property
    def big(self) -> float:
        return BIG[self.subject.dtype]

    def sample(
        self,
        number: int = 0,
        *,
        call: Call | None = None,
        batch: int | None = None,
        tokens: int | dict[str, int] | None = None,
    ) -> Batch:
        """Random tokens for every source; the same `number` gives the same tokens."""
        call = call or self.call
        generator = torch.Generator().manual_seed(1000 * self.seed + number + 7)
        want = tokens if isinstance(tokens, dict) else dict.fromkeys(call.sources, tokens)
        return {n: s.sample(generator, batch=batch, tokens=want.get(n)) for n, s in call.sources.items()}

    def raw(
        self,
        batch: Batch,
        *,
        call: Call | None = None,
        masks: dict[str, Tensor] | None = None,
        extra: dict[str, Any] | None = None,
        grids: dict[str, tuple[int, ...]] | None = None,
        dtype: torch.dtype | None = None,
        **how: Any,
    ) -> Any:
        """What the subject returns. `masks`: parameter -> keep (B, S), True = attend, encoded as that parameter wants."""
        call = call or self.call
        dtype = dtype or self.subject.dtype
        kwargs = call.lay_out(batch, dtype, grids)
        for use in self.masks:
            if masks and use.parameter in masks:
                queries = batch[call.query].shape[1]
                kwargs[use.parameter] = use.encode(masks[use.parameter], queries, dtype)
        kwargs.update(extra or {})
        return self.subject.call(kwargs, dtype=dtype, **how)

    def run(self, batch: Batch, *, call: Call | None = None, **how: Any) -> Tensor:
        """(B, M, F) float64: the main output as tokens."""
        return (call or self.call).main_output(self.raw(batch, call=call, **how))

    @cached_property
    def base(self) -> tuple[Batch, Tensor]:
        """A sample and its output."""
        batch = self.sample()
        return batch, self.run(batch)

    @property
    def positional(self) -> bool:
        """One output token per query token, so that rows can be compared."""
        return self.call.follows

    @property
    def leaves_out(self) -> bool:
        """Are there arguments, streams or caches that the plain call leaves out, and that an unused parameter may be for?"""
        asked = self.signature
        unknown = [n for n in (*asked.unknown, *asked.segments) if n not in asked.required]
        return bool(self.cache or asked.extra_streams or asked.caches or asked.positions or unknown)

    def difference(self, a: Tensor, b: Tensor) -> float:
        """Largest difference relative to the largest finite value; inf when only one is finite."""
        if a.shape != b.shape:
            return float("inf")
        if a.numel() == 0:
            return 0.0
        if not bool((torch.isfinite(a) == torch.isfinite(b)).all()):
            return float("inf")
        finite = torch.isfinite(a)
        if not bool(finite.any()):
            return 0.0
        size = max(float(a[finite].abs().max()), float(b[finite].abs().max()), 1e-12)
        return float((a[finite] - b[finite]).abs().max()) / size

    def in_float32(self) -> Case:
        """The same case in float32: a finite minimum of float64 is infinite there, and some softmaxes compute in float32."""
        subject = copy.copy(self.subject)
        subject.dtype = torch.float32
        return replace(
            self,
            subject=subject,
            facts={k: self.facts[k] for k in ("causal", "init", "factory", "finite") if k in self.facts},
        )

    def need(self, condition: bool, reason: str) -> None:
        if not condition:
            raise NotExercised(reason)

    def need_determinism(self) -> None:
        self.need(not self.stochastic, "two eval calls differ (see dropout_in_eval), so results cannot be compared")


@dataclass(frozen=True)
class Verdict:
    """What a rule hands back; the runner adds code, name and where."""

    level: str
    message: str
    kind: str | None = None
    measured: Any = None
    allowed: Any = None
    example: str | None = None
    cause: str | None = None
    fix: str | None = None
    where: str | None = None
    script: str | None = None
    diff: str | None = None

    def finding(self, code: str, name: str, where: str | None) -> Finding:
        return Finding(
            rule=code, name=name, level=self.level, message=self.message, kind=self.kind, where=self.where or where,
            measured=self.measured, allowed=self.allowed, example=self.example, cause=self.cause, fix=self.fix,
            script=self.script, diff=self.diff,
        )  # fmt: skip
