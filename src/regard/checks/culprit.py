"""Which part of a model lets something through: the first, innermost module whose output changed where none of its inputs did.

A run is compared with one in which something was replaced that certain rows must not see. Hooks on every module record what
went in and what came out; no class is recognised. Rows are tokens: (B, N, F) is found in each tensor by its sizes.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.checks.call import Call
from regard.checks.case import Batch, Case
from regard.checks.subject import clone, invoke, untouched_globals

TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep


@dataclass(frozen=True)
class Culprit:
    """path: the module's name in the model ("layers.2.attn"); where: "file:line" of its forward, or of the user's module around it."""

    path: str
    name: str
    where: str | None


@dataclass(frozen=True)
class Run:
    """One call. rows: token count -> (B, N) bool, the rows that must be the same in both runs, in the same order."""

    kwargs: dict[str, Any]
    rows: dict[int, Tensor]


@dataclass(frozen=True)
class Passage:
    """What went into one module, once, and what came out."""

    path: str
    module: nn.Module
    inputs: list[Tensor]
    outputs: list[Tensor]


def run_of(
    case: Case, call: Call, batch: Batch, rows: dict[int, Tensor], masks: dict[str, Tensor] | None = None
) -> Run:
    """The call on these tokens, with the arguments of masks."""
    return Run(call.lay_out(batch, case.subject.dtype) | (masks or {}), rows)


def find_culprit(case: Case, before: Run, after: Run) -> Culprit | None:
    """The first module to complete whose rows changed while all that it got for them stayed; None when it is the subject itself."""
    if not case.subject.is_module:
        return None
    first, second = (_passages(case, run) for run in (before, after))
    if [p.path for p in first] != [p.path for p in second]:
        return None
    for a, b in zip(first, second):
        if _changed(case, a.outputs, b.outputs, before, after, unknown=False) and not _changed(
            case, a.inputs, b.inputs, before, after, unknown=True
        ):
            return Culprit(a.path, type(a.module).__name__, _own_line(case, a.path)) if a.path else None
    return None


def _passages(case: Case, run: Run) -> list[Passage]:
    """Every call of every module, in the order in which they ended."""
    module = case.subject.instance(fresh=True)
    seen: list[Passage] = []

    def keep(path: str) -> Any:
        def hook(part: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
            seen.append(
                Passage(
                    path, part, [t.clone() for t in _tensors((args, kwargs))], [t.clone() for t in _tensors(output)]
                )
            )

        return hook

    for path, part in module.named_modules():
        part.register_forward_hook(keep(path), with_kwargs=True)
    with untouched_globals(case.seed), torch.no_grad():
        invoke(module, {k: clone(v) for k, v in run.kwargs.items()})
    return seen


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value.detach()
    elif isinstance(value, dict):
        for v in value.values():
            yield from _tensors(v)
    elif isinstance(value, (tuple, list)):
        for v in value:
            yield from _tensors(v)


def _changed(case: Case, a: list[Tensor], b: list[Tensor], before: Run, after: Run, *, unknown: bool) -> bool:
    """Does any tensor differ on the rows? `unknown`: what a tensor without rows that differs counts for."""
    if len(a) != len(b):
        return unknown
    for x, y in zip(a, b):
        left, right = _rows(x, before.rows), _rows(y, after.rows)
        if left is None or right is None:
            if unknown and x.shape == y.shape and not torch.equal(x, y):
                return True
        elif left.shape == right.shape and case.difference(left.double(), right.double()) > case.tolerance:
            return True
    return False


def _rows(tensor: Tensor, rows: dict[int, Tensor]) -> Tensor | None:
    """(R, F): the rows that must not change, wherever batch and tokens lie; None where they cannot be found by their sizes."""
    if tensor.is_complex() or tensor.ndim < 2:
        return None
    for count, keep in rows.items():
        size = tuple(tensor.shape)
        for axes in ((0, 1), (1, 0), (0, tensor.ndim - 2), (0, tensor.ndim - 1)):
            if axes[0] != axes[1] and (size[axes[0]], size[axes[1]]) == (keep.shape[0], count):
                return (
                    tensor.movedim(axes, (0, 1)).flatten(2)[keep]
                    if tensor.ndim > 2
                    else tensor.movedim(axes, (0, 1))[keep][:, None]
                )
        if size[0] == keep.numel():  # items and tokens on one axis
            return tensor.flatten(1)[keep.flatten()]
        if tensor.ndim == 3 and size[1] == count and size[0] % keep.shape[0] == 0:  # heads folded into the batch
            return tensor.unflatten(0, (keep.shape[0], -1)).movedim(2, 1).flatten(2)[keep]
    return None


def _own_line(case: Case, path: str) -> str | None:
    """The forward of the innermost module on the way to `path` that torch did not write."""
    parts = path.split(".")
    for n in range(len(parts), -1, -1):
        cls = type(case.subject.pristine.get_submodule(".".join(parts[:n])))
        try:
            file, line = inspect.getsourcefile(cls.forward), inspect.getsourcelines(cls.forward)[1]
        except (OSError, TypeError):
            continue
        if file and not file.startswith(TORCH):
            return f"{file}:{line}"
    return None
