"""Which of the tensors that a call gives is its main output, and how it lies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor

from regard.checks.call import Source
from regard.checks.layout import Layout, output_layout


def main_tensor(raw: Any, query: Source, keys: Source) -> tuple[tuple[Any, ...], Layout, bool] | None:
    """Path, layout and "follows the query" of the main output: the first float tensor with the batch that is no weight map."""
    rest: list[tuple[tuple[Any, ...], Layout, bool]] = []
    for path, tensor in float_tensors(raw):
        if looks_like_weights(tensor, keys.tokens) and tensor.shape[-1] != query.width:
            continue
        layout = output_layout(tuple(tensor.shape), query.layout, query.batch, query.grid)
        if layout is not None:
            return path, layout, True
        if tensor.ndim >= 1 and tensor.shape[0] == query.batch and query.layout.batched:
            axes = {1: "B", 2: "BD", 3: "BLD", 4: "BLHD", 5: "BTHWD"}.get(tensor.ndim)
            if axes:
                rest.append((path, Layout(axes), False))
        elif not query.layout.batched and tensor.ndim in (1, 2) and query.tokens not in tensor.shape:  # of all tokens
            rest.append((path, Layout("D" if tensor.ndim == 1 else "LD"), False))
    return rest[0] if rest else None


def float_tensors(raw: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Tensor]]:
    """Every floating tensor in a nest of tuples, lists, dicts and dataclasses, with the keys that lead to it."""
    if isinstance(raw, Tensor):
        if raw.is_floating_point() or raw.is_complex():
            yield path, raw
    elif isinstance(raw, dict):
        for key, value in raw.items():
            yield from float_tensors(value, (*path, key))
    elif isinstance(raw, (tuple, list)):
        for i, value in enumerate(raw):
            yield from float_tensors(value, (*path, i))
    elif hasattr(raw, "__dataclass_fields__"):
        for key in raw.__dataclass_fields__:
            yield from float_tensors(getattr(raw, key), (*path, key))


def looks_like_weights(tensor: Tensor, keys: int) -> bool:
    """Non-negative, one entry per key on the last axis, rows that sum to one."""
    if tensor.ndim < 2 or tensor.shape[-1] != keys or tensor.is_complex():
        return False
    values = tensor.detach()
    return bool((values >= 0).all()) and bool(((values.sum(-1) - 1).abs() < 1e-3).all())
