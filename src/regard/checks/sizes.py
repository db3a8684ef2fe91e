"""Sizes worth trying for a module that says nothing of them: read from its weights, buffers and integer attributes."""

from __future__ import annotations

import inspect
import itertools
import math
from collections import Counter
from collections.abc import Iterator
from functools import partial
from types import CellType
from typing import Any

from torch import Tensor, nn

from regard.checks.roles import constructor_role

DEFAULT_WIDTH = 12  # for modules that take any width
LENGTHS = (7, 6, 8, 12, 16, 24, 9, 49, 64)
GRIDS = ((5, 6), (4, 6), (6, 8), (8, 12), (8, 8), (7, 7), (14, 14), (16, 16), (6, 6), (4, 4), (12, 12), (32, 32))
LARGEST = 4096
EMPTY_CELL = CellType()


def widths(module: Any) -> list[int]:
    """Channel counts that an input may have, the likeliest first."""
    if not isinstance(module, nn.Module):
        often = Counter(n for t in held(module) for n in t.shape if n > 1)
        return [n for n, _ in sorted(often.items(), key=lambda item: (-item[1], -item[0]))][:8] or [8]
    score: Counter[int] = Counter()
    for name, value in _defaults(module):
        if constructor_role(name) == "width":
            score[value] += 2
    for part in module.modules():
        for name, value in vars(part).items():
            if (
                isinstance(value, int)
                and not isinstance(value, bool)
                and constructor_role(name) == "width"
                and value > 1
            ):
                score[value] += 6 if part is module else 2
        for name in ("in_features", "in_channels", "embed_dim", "embedding_dim"):
            value = getattr(part, name, None)
            if isinstance(value, int) and value > 1:
                score[value] += 4
        if isinstance(part, nn.LayerNorm) and len(part.normalized_shape) == 1:
            score[part.normalized_shape[0]] += 3
    first = next((m for m in module.modules() if isinstance(m, (nn.Linear, nn.modules.conv._ConvNd))), None)
    if first is not None:
        score[getattr(first, "in_features", 0) or getattr(first, "in_channels", 0)] += 5
    for p in module.parameters():
        for n in p.shape[-2:]:
            if n > 1:
                score[n] += 1
    for heads in (
        _heads(module) if not any(True for _ in module.parameters()) else ()
    ):  # a packed query, key and value, or one of them
        score[8 * heads] += 2
        score[3 * 8 * heads] += 1
    return [n for n, _ in sorted(score.items(), key=lambda item: (-item[1], -item[0]))][:8] or [DEFAULT_WIDTH]


def held(function: Any) -> list[Tensor]:
    """Weights that a callable which is no module keeps: in its attributes, what it closes over, or what is bound to it."""
    if isinstance(function, nn.Module):
        return []
    cells = [c.cell_contents for c in getattr(function, "__closure__", None) or () if c != EMPTY_CELL]
    bound = [getattr(function, "args", ()), getattr(function, "keywords", {})] if isinstance(function, partial) else []
    return list(
        _tensors([*vars(function).values(), *cells, *bound] if hasattr(function, "__dict__") else [*cells, *bound])
    )


def _tensors(values: Any, depth: int = 3) -> Iterator[Tensor]:
    for value in values if depth else ():
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value, depth - 1)
        elif isinstance(value, dict):
            yield from _tensors(value.values(), depth - 1)


def _defaults(module: nn.Module) -> Iterator[tuple[str, int]]:
    """Sizes that the constructor uses where nothing is given."""
    try:
        parameters = inspect.signature(type(module).__init__).parameters.values()
    except (TypeError, ValueError):
        return
    for p in parameters:
        if isinstance(p.default, int) and not isinstance(p.default, bool) and p.default > 1:
            yield p.name, p.default


def _heads(module: nn.Module) -> list[int]:
    return [v for n, v in vars(module).items() if isinstance(v, int) and constructor_role(n) == "num_heads"]


def integers(module: Any) -> Iterator[int]:
    """Numbers that the module keeps, then those that its constructor starts from."""
    yield from _kept_integers(module)
    if isinstance(module, nn.Module):
        yield from (
            n for name, n in _defaults(module) if constructor_role(name) in ("grid", "length", "window", "count")
        )


def _kept_integers(module: Any) -> Iterator[int]:
    for part in module.modules() if isinstance(module, nn.Module) else ():
        for name, value in vars(part).items():
            if name.startswith("_") or isinstance(part, (nn.Linear, nn.modules.conv._ConvNd)):
                continue
            if isinstance(value, int) and not isinstance(value, bool):
                yield value
            elif isinstance(value, (tuple, list)) and value and all(isinstance(v, int) for v in value):
                yield from value
                yield math.prod(value)
        for tensor in [*part._buffers.values(), *(v for v in vars(part).values() if isinstance(v, Tensor))]:
            if tensor is not None:
                yield from tensor.shape


def lengths(module: Any) -> list[int]:
    """Token counts to try: general ones first, then what the module's own numbers suggest."""
    own = [n for n in dict.fromkeys(integers(module)) if 2 <= n <= 512]
    small = [n * k for n in own if n <= 16 for k in (2, 3, n)]
    with_class = [2 * n + 1 for n in own if n <= 64]  # frames of n tokens, and a class token
    return list(dict.fromkeys([*LENGTHS, *own, *small, *with_class]))


LARGEST_IMAGE = 64 * 64  # pixels


def grids(module: Any) -> list[tuple[int, int]]:
    """Image sizes to try, H != W first."""
    own = [n for n in dict.fromkeys(integers(module)) if 2 <= n <= 64]
    pairs = [(a, b) for a, b in itertools.product(own[:6], repeat=2) if a * b <= LARGEST]
    twice = [(2 * n, 3 * n) for n in own if n <= 8]
    large = [(n, n) for n in dict.fromkeys(integers(module)) if 64 < n <= 256]
    patched = list(dict.fromkeys(_patched(module)))[:6]
    sides_ = list(dict.fromkeys([*_embedded_sides(module), *_ranged_sides(module)]))[:4]
    fixed = [(a, b) for a, b in itertools.product(sides_, repeat=2) if a * b <= LARGEST]
    return list(
        dict.fromkeys(
            [*GRIDS[:8], *fixed, *patched, *GRIDS[8:], *twice, *pairs[: 24 - len(GRIDS) - len(twice)], *large[:2]]
        )
    )


def _patched(module: Any) -> Iterator[tuple[int, int]]:
    """Images whose patches are as many as a table of positions has rows, or one fewer: a class token has a row too."""
    parts = list(module.modules()) if isinstance(module, nn.Module) else []
    steps = {
        m.kernel_size[0] for m in parts if isinstance(m, nn.Conv2d) and m.kernel_size == m.stride and m.stride[0] > 1
    }
    tables = {
        p.shape[-2]
        for m in parts
        for n, p in m._parameters.items()
        if p is not None and p.ndim == 3 and p.shape[0] == 1
    }
    for step, rows in itertools.product(sorted(steps), sorted(tables)):
        for count in (rows - 1, rows):
            pairs = [(a, count // a) for a in range(2, math.isqrt(max(count, 0)) + 1) if count % a == 0]
            for a, b in reversed(pairs):  # the one nearest to a square first
                if step * step * count <= LARGEST_IMAGE:
                    yield from ((step * a, step * b), (step * b, step * a))


def _embedded_sides(module: Any) -> Iterator[int]:
    """Heights and widths of learned embeddings of a map, (..., H, 1), (..., 1, W) or (..., H, W)."""
    for part in module.modules() if isinstance(module, nn.Module) else ():
        for p in part._parameters.values() if not isinstance(part, nn.modules.conv._ConvNd) else ():
            if p is not None and p.ndim > 3:
                yield from (n for n in p.shape[-2:] if 2 <= n <= 64)


def _ranged_sides(module: Any) -> Iterator[int]:
    """Heights and widths whose distances, one less than twice as many, are the rows of a learned table (2 H - 1, D)."""
    for part in module.modules() if isinstance(module, nn.Module) else ():
        own = [] if type(part).__module__.startswith("torch.") else part._parameters.values()
        yield from (
            p.shape[0] // 2 + 1 for p in own if p is not None and p.ndim == 2 and 4 < p.shape[0] < 64 and p.shape[0] % 2
        )


def sides(module: Any) -> list[int]:
    """Window sides to try: small numbers of the module, and roots of those that are squares."""
    own = list(dict.fromkeys(integers(module)))
    return list(
        dict.fromkeys(
            [
                *(math.isqrt(n) for n in own if 4 <= n <= 256 and math.isqrt(n) ** 2 == n),
                *(n for n in own if 2 <= n <= 8),
            ]
        )
    )[:8]


def vocabulary(module: Any) -> int | None:
    """The size of the smallest embedding table of some size, which any stream may index (see `settle.fitted_vocabularies`)."""
    parts = module.modules() if isinstance(module, nn.Module) else ()
    return min((m.num_embeddings for m in parts if isinstance(m, nn.Embedding) and m.num_embeddings > 8), default=None)
