"""Which products a run divides by which tensors: the numerator and the denominator of attention without a softmax.

Axes: what a run divides has the shape that its author gave it; a product is out = left x right, by matmul or einsum.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from regard.checks.case import Batch, Case
from regard.checks.subject import clone, invoke, untouched_globals

PRODUCTS = {"einsum", "matmul", "__matmul__", "bmm"}
QUOTIENTS = {"div", "div_", "true_divide", "divide", "__truediv__", "__itruediv__"}


@dataclass
class Quotient:
    """above / below, where `above` is a product of `operands`."""

    above: Tensor
    below: Tensor
    operands: list[Tensor]


@dataclass
class _Products(TorchFunctionMode):
    made: list[tuple[Tensor, list[Tensor]]] = field(default_factory=list)  # held, so that no address is used again
    found: list[Quotient] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name in QUOTIENTS and len(args) == 2 and all(isinstance(a, Tensor) for a in args):
            above, below = args
            operands = next((o for out, o in self.made if _same_memory(out, above)), None)
            if operands is not None:
                self.found.append(Quotient(above.detach().clone(), below.detach().clone(), operands))
        out = func(*args, **(kwargs or {}))
        if name in PRODUCTS and isinstance(out, Tensor):
            self.made.append((out, [a for a in _tensors(args) if a.is_floating_point()]))
        return out


def _tensors(args: Any) -> list[Tensor]:
    if isinstance(args, Tensor):
        return [args]
    return [t for a in args for t in _tensors(a)] if isinstance(args, (tuple, list)) else []


def _same_memory(a: Tensor, b: Tensor) -> bool:
    """Is one the other, or a view of all of it?"""
    return a.numel() == b.numel() and a.data_ptr() == b.data_ptr()


def quotients(case: Case, batch: Batch) -> list[Quotient]:
    """Products that one plain run divides by another tensor, in order."""
    module = case.subject.instance()
    kwargs = {k: clone(v) for k, v in case.call.lay_out(batch, case.subject.dtype).items()}
    mode = _Products()
    with untouched_globals(case.seed), torch.no_grad(), mode:
        invoke(module, kwargs)
    return mode.found
