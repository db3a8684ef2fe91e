"""What an adapter finds in an attention module: its arrays as they lie, their layout, and what else its output depends on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from regard.adapt.layout import Layout
from regard.core.errors import ConversionError
from regard.core.mask.expression import Mask
from regard.core.position import Rotary

CASES = ("self", "padding", "causal", "causal and padding", "cross")  # the calls that are compared


@dataclass(frozen=True)
class Buckets:
    """A learned number per head and range of distances, as T5 has it."""

    table: Tensor  # (buckets, H)
    max_distance: int
    bidirectional: bool


@dataclass(frozen=True)
class Facts:
    """What besides the four projections decides the output.

    Attributes:
        mask: Part of every call, such as causal().
        scale: Factor of the scores; None: 1 / sqrt(D).
        softcap, dropout: As in `regard.nn.MultiHeadAttention`.
        position: Rotary positions of queries and keys.
        alibi: Whether -slope * distance is added to the scores.
        buckets: A table that is added to the scores.
        norms: The norm of each query head and that of each key head.
    """

    mask: Mask | None = None
    scale: float | None = None
    softcap: float | None = None
    dropout: float = 0.0
    position: Rotary | None = None
    alibi: bool = False
    buckets: Buckets | None = None
    norms: tuple[nn.Module, nn.Module] | None = None


@dataclass(frozen=True)
class Found:
    """One attention, read but not yet understood.

    Attributes:
        source: What it is, for messages: "torch.nn.MultiheadAttention".
        arrays: By role: "qkv", or "q" and "kv", or "q", "k", "v"; "out"; biases as "q.bias".
        layout: How they lie, as far as the adapter knows.
        facts: What else decides the output.
        cases: Which of `CASES` the module can be called for; empty where it cannot be called.
        sure: Whether the framework itself fixes the layout; False: names were guessed.
    """

    source: str
    arrays: dict[str, Tensor]
    layout: Layout
    facts: Facts = field(default_factory=Facts)
    cases: tuple[str, ...] = ("self",)
    sure: bool = True

    def told(self, said: Mapping[str, Any]) -> Found:
        """With what the caller says in place of what was read: fields of `Layout` and of `Facts`, by name."""
        layout = {name: x for name, x in said.items() if name in Layout.__dataclass_fields__}
        facts = {name: x for name, x in said.items() if name in Facts.__dataclass_fields__}
        return replace(self, layout=replace(self.layout, **layout), facts=replace(self.facts, **facts))


class Adapter(Protocol):
    """One framework. A file of this folder is one, or holds one."""

    def find(self, module: Any, said: Mapping[str, Any]) -> Found:
        """Read a module; `said` is what the caller knows of it, such as num_heads."""
        ...

    def run(self, module: Any, query: Tensor, context: Tensor | None, attend: Tensor) -> Tensor:
        """The module's own output (B, T, E) in eval mode.

        Args:
            query: (B, T, E).
            context: (B, S, E), keys and values; None: the query.
            attend: (B, T, S), True = attend: all that the call hides, the module's own mask included.
        """
        ...

    def store(self, module: Any, arrays: Mapping[str, Tensor]) -> None:
        """Fill the module with these arrays, named and shaped as `find` gives them."""
        ...


def store_in_place(found: Found, arrays: Mapping[str, Tensor]) -> None:
    """Copy into tensors that are the parameters themselves."""
    with torch.no_grad():
        for name, array in arrays.items():
            found.arrays[name].copy_(array)


def additive(attend: Tensor, dtype: torch.dtype) -> Tensor:
    """(B, T, S), True = attend, to (B, 1, T, S) of 0 and the lowest finite number."""
    return torch.zeros(attend.shape, dtype=dtype).masked_fill(~attend, torch.finfo(dtype).min)[:, None]


def heads_of(said: Mapping[str, Any], read: int | None, source: str) -> int:
    """The number of heads: what was said, else what was read.

    Raises:
        ConversionError: Neither.
    """
    number = said.get("num_heads") or read
    if number is None:
        raise ConversionError(f"{source} does not say how many heads it has; give num_heads=")
    return int(number)
