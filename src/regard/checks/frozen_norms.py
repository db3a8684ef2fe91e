"""Norms over many tokens, with the statistics of one run kept for the next: each token then passes on its own.

A group norm subtracts a mean of all pixels, so that every row behind it reacts a little to every token. With mean and deviation
held fixed it is one multiplication and one addition for each channel, and tokens can be followed through it.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from regard.checks.call import Call
from regard.checks.case import Case


@dataclass
class Norm:
    """One norm of a run: its input cut into rows that share statistics, and the channels' own weight and bias."""

    rows: Tensor
    weight: Tensor | None
    bias: Tensor | None
    eps: float

    def statistics(self) -> tuple[Tensor, Tensor]:
        rows = self.rows.detach()
        return rows.mean(-1, keepdim=True), (rows.var(-1, unbiased=False, keepdim=True) + self.eps).rsqrt()

    def apply(self, mean: Tensor, factor: Tensor, shape: torch.Size) -> Tensor:
        out = ((self.rows - mean) * factor).reshape(shape)
        out = out if self.weight is None else out * self.weight
        return out if self.bias is None else out + self.bias


def _group(
    x: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5, *_: Any
) -> Norm | None:
    shape = (1, x.shape[1], *(1,) * (x.ndim - 2))
    weight, bias = (None if p is None else p.reshape(shape) for p in (weight, bias))
    return Norm(x.reshape(x.shape[0] * num_groups, -1), weight, bias, eps) if x.ndim > 2 else None


def _instance(
    x: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Norm | None:
    del running_mean, running_var, momentum
    return _group(x, x.shape[1], weight, bias, eps) if use_input_stats else None


def _layer(
    x: Tensor,
    normalized_shape: Any,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    *_: Any,
) -> Norm | None:
    if len(normalized_shape) < 2:  # of one token
        return None
    return Norm(x.reshape(-1, math.prod(normalized_shape)), weight, bias, eps)


KINDS: dict[Callable[..., Any], Callable[..., Norm | None]] = {
    F.group_norm: _group,
    torch.group_norm: _group,
    F.instance_norm: _instance,
    F.layer_norm: _layer,
    torch.layer_norm: _layer,
}


@dataclass
class _Statistics:
    """Of the norms of one run, in their order: (shape of the input, mean, factor)."""

    held: list[tuple[torch.Size, Tensor, Tensor]] = field(default_factory=list)


class _Mode(TorchFunctionMode):
    """Writes statistics down, or uses what was written down where the shapes are the same."""

    def __init__(self, statistics: _Statistics, *, replay: bool):
        super().__init__()
        self.statistics, self.replay, self.at = statistics, replay, 0

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        read = KINDS.get(func)
        if read is None:
            return func(*args, **kwargs)
        x = args[0] if args else kwargs["input"]
        norm = read(x, *args[1:], **{k: v for k, v in kwargs.items() if k != "input"})
        if norm is None:
            return func(*args, **kwargs)
        held, self.at = self.statistics.held, self.at + 1
        if not self.replay:
            held.append((x.shape, *norm.statistics()))
        elif self.at <= len(held) and held[self.at - 1][0] == x.shape:
            _, mean, factor = held[self.at - 1]
            return norm.apply(mean, factor, x.shape)
        return func(*args, **kwargs)


def frozen_norms(case: Case, call: Call) -> Callable[[], contextlib.AbstractContextManager[Any]]:
    """A maker of contexts, one for each run: inside, norms over several tokens use the statistics of the first sample."""
    key = ("frozen norms", id(call))
    if key not in case.facts:
        statistics = _Statistics()
        with _Mode(statistics, replay=False):
            case.run(case.sample(call=call), call=call)
        case.facts[key] = statistics
    statistics = case.facts[key]

    @contextlib.contextmanager
    def frozen() -> Iterator[None]:
        with _Mode(statistics, replay=True) if statistics.held else contextlib.nullcontext():
            yield

    return frozen
