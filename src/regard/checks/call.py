"""How a subject is called: which argument gets which stream, in which layout, and where the main output is.

A *source* is one stream of tokens; several arguments may be fed from it (query, key and value of self-attention).
Everything that a rule handles is tokens, (B, N, F) in float64 (or integer ids); `Call.arguments` lays them out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from regard.checks.layout import Layout


@dataclass(frozen=True)
class Source:
    """One stream: its layout and the sizes that were found to work."""

    layout: Layout
    batch: int
    grid: tuple[int, ...]
    width: int
    heads: int = 1
    vocabulary: int | None = None  # integer ids below this number instead of floats
    patch: int = 1  # a token is a square of so many pixels on a side; `width` counts all their channels

    @property
    def tokens(self) -> int:
        return math.prod(self.grid)

    @property
    def shape(self) -> tuple[int, ...]:
        pixels = tuple(n * self.patch for n in self.grid)
        return self.layout.shape(self.batch, pixels, self.width // self.patch**2, self.heads)

    def sample(self, generator: torch.Generator, *, batch: int | None = None, tokens: int | None = None) -> Tensor:
        """(B, N, F) standard normal, or (B, N, 1) ids."""
        size = (batch or self.batch, tokens or self.tokens)
        if self.vocabulary is not None:
            low = min(5, self.vocabulary // 4)  # small ids are often padding and other special tokens
            return torch.randint(low, self.vocabulary, (*size, 1), generator=generator)
        return torch.randn(*size, self.width * self.heads, generator=generator, dtype=torch.float64)

    def lay_out(self, tokens: Tensor, grid: tuple[int, ...] | None, dtype: torch.dtype) -> Tensor:
        grid = grid or self.grid_of(tokens.shape[1])
        if self.vocabulary is not None:
            return self.layout.from_tokens(tokens, grid)
        if self.patch > 1:
            tokens, grid = _pixels(tokens, grid, self.patch)
        return self.layout.from_tokens(tokens.to(dtype), grid, self.heads)

    def grid_of(self, tokens: int) -> tuple[int, ...]:
        """The grid for a token count: the known one, or one free axis."""
        if tokens == self.tokens:
            return self.grid
        if len(self.grid) == 1:
            return (tokens,)
        raise ValueError(f"{tokens} tokens do not fill a grid like {self.grid}")


def _pixels(tokens: Tensor, grid: tuple[int, ...], side: int) -> tuple[Tensor, tuple[int, ...]]:
    """(B, h * w, C * side * side), tokens that are patches, as (B, h * side * w * side, C), and the grid of pixels."""
    rows, columns = grid
    cut = tokens.reshape(tokens.shape[0], rows, columns, -1, side, side)  # (B, h, w, C, side, side)
    return cut.permute(0, 1, 4, 2, 5, 3).flatten(1, 4), (rows * side, columns * side)


BATCH_FIRST = Layout("BLD")


@dataclass(frozen=True)
class Call:
    """One way to call the subject that runs."""

    sources: dict[str, Source]
    arguments: dict[str, str]  # parameter -> source
    fixed: dict[str, Any] = field(default_factory=dict)
    query: str = "x"  # the source whose tokens the output follows
    output: tuple[Any, ...] = ()  # keys that lead to the main tensor in what is returned
    output_layout: Layout = BATCH_FIRST
    follows: bool = True  # one output token for each query token
    skip: int = 0  # rows of the output before those: a class token
    free_length: bool = True  # other lengths run too
    free_batch: bool = True

    @property
    def stretched(self) -> bool:
        """Has the output more axes than the query, and none of its tokens? Then another argument may have had an axis that the query lacks."""
        wanted = self.sources[self.query].layout.axes
        return not self.follows and len(self.output_layout.axes) > len(wanted)

    @property
    def made_up(self) -> bool:
        """Were tensors made up beside the streams?"""
        return any(callable(v) for v in self.fixed.values())

    @property
    def is_cross(self) -> bool:
        return len(self.sources) > 1

    @property
    def keys(self) -> str:
        """The source that is attended to."""
        others = [s for s in self.sources if s != self.query]
        return others[0] if others else self.query

    def but(self, **changes: Any) -> Call:
        return replace(self, **changes)

    def lay_out(
        self, tokens: dict[str, Tensor], dtype: torch.dtype, grids: dict[str, tuple[int, ...]] | None = None
    ) -> dict[str, Any]:
        """The keyword arguments for these tokens. Arguments fed by one source get the same tensor object."""
        grids = grids or {}
        laid = {name: s.lay_out(tokens[name], grids.get(name), dtype) for name, s in self.sources.items()}
        out: dict[str, Any] = {parameter: laid[source] for parameter, source in self.arguments.items()}
        for name, value in self.fixed.items():
            out[name] = value(tokens, dtype) if callable(value) else value
        for name in [n for n in out if n.endswith("]")]:  # "history[0]", "history[1]": one argument that is a list
            out.setdefault(name.partition("[")[0], []).append(out.pop(name))
        return out

    def main_output(self, raw: Any) -> Tensor:
        """(B, M, F) in float64, from whatever the subject returned."""
        for key in self.output:
            if isinstance(raw, Tensor):
                break  # with other options it comes alone
            raw = raw[key] if not isinstance(key, str) or isinstance(raw, dict) else getattr(raw, key)
        tensor = _first_of(raw)  # with other options more comes after it
        tokens = self.output_layout.to_tokens(tensor.detach() if not tensor.requires_grad else tensor)[:, self.skip :]
        return tokens.to(torch.float64) if not tokens.is_complex() else tokens.abs().to(torch.float64)

    def describe(self) -> dict[str, Any]:
        """For reports: arguments with their layouts and shapes."""
        letters = {"D": "channels", "K": "heads"}
        inputs = {
            p: {
                "source": s,
                "layout": self.sources[s].layout.axes.replace("K", "H(eads) ").strip(),
                "shape": list(self.sources[s].shape),
            }
            for p, s in self.arguments.items()
        }
        del letters
        return {
            "kind": "cross" if self.is_cross else "self",
            "inputs": inputs,
            "fixed": {k: _short(v) for k, v in self.fixed.items()},
            "output": {"path": list(self.output), "layout": self.output_layout.axes, "follows": self.follows},
        }


def _first_of(raw: Any) -> Any:
    """The first of a tuple or list, of whatever depth; anything else as it is."""
    return _first_of(raw[0]) if isinstance(raw, (tuple, list)) and len(raw) else raw


def _short(value: Any) -> Any:
    if callable(value):
        return getattr(value, "__doc__", None) or "computed"
    return value if isinstance(value, (int, float, str, bool, type(None), list)) else repr(value)[:60]
