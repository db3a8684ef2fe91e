"""Masks as torch pytrees: their tensors are leaves, so that export, compile and vmap see them; the rest is context."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Any, TypeVar

import torch
from torch.utils import _pytree as pytree

Context = tuple[tuple[str, ...], tuple[tuple[str, Any], ...]]  # names of the children; names and values of the rest


Leaf = TypeVar("Leaf")


def leaf(cls: type[Leaf]) -> type[Leaf]:
    """Register a frozen dataclass of a mask. `cls.children` names the fields that hold tensors or masks."""
    pytree.register_pytree_node(
        cls,
        _flatten,
        lambda children, context: _unflatten(cls, children, context),
        serialized_type_name=f"regard.core.mask.{cls.__name__}",
        flatten_with_keys_fn=_flatten_with_keys,
        to_dumpable_context=lambda context: [list(context[0]), [list(pair) for pair in context[1]]],
        from_dumpable_context=lambda text: (tuple(text[0]), tuple((k, _frozen(v)) for k, v in text[1])),
    )
    torch.serialization.add_safe_globals([cls])  # a saved export holds its example masks
    return cls


def _frozen(value: Any) -> Any:
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value


def _child_names(mask: Any) -> tuple[str, ...]:
    if "_names" in mask.__dict__:  # made by _unflatten, perhaps of placeholders
        return mask._names
    named = [field.name for field in fields(mask) if field.name in type(mask).children]
    return tuple(name for name in named if not isinstance(getattr(mask, name), int | None))


def _flatten(mask: Any) -> tuple[list[Any], Context]:
    names = _child_names(mask)
    static = tuple((field.name, getattr(mask, field.name)) for field in fields(mask) if field.name not in names)
    return [getattr(mask, name) for name in names], (names, static)


def _flatten_with_keys(mask: Any) -> tuple[list[tuple[Any, Any]], Context]:
    children, context = _flatten(mask)
    return [(pytree.GetAttrKey(name), child) for name, child in zip(context[0], children, strict=True)], context


def _unflatten(cls: type, children: Iterable[Any], context: Context) -> Any:
    mask = object.__new__(cls)  # without the checks of __init__: the children may be placeholders
    for name, child in (*zip(context[0], children, strict=True), *context[1]):
        object.__setattr__(mask, name, child)
    object.__setattr__(mask, "_names", context[0])
    return mask
