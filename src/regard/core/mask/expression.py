"""A mask is an expression: leaves that know their structure, joined by &, | and ~, read only when tensors meet it.

Axes: B samples, H query heads, T queries, S keys. True = attend.

A cache binds absolute positions with `mask.at(query_positions, key_positions)`, after the parts were combined:
(B or 1, T) and (B or 1, S) integers, -1 = empty slot, hidden from everybody. Backends ask `materialise` for the boolean
and `structure.of` for the form (causal? a window? key padding? documents?) so that they can choose without reading values.

A new leaf is a frozen dataclass with `children`, `check`, `allowed` and `describe`, registered with `@leaf`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from regard.core.errors import MaskError, ShapeError
from regard.core.mask.places import Places


class Mask:
    """Which keys a query attends to: a predicate over absolute positions. True = attend."""

    children: ClassVar[tuple[str, ...]] = ()  # the fields that hold tensors or masks
    covers_padding: ClassVar[bool] = False  # padding, documents: must stand outside | and ~
    offset: int | Tensor | None = None

    def check(self, places: Places) -> None:
        """Refuse a call that this mask does not fit. Reads sizes, never values."""

    def allowed(self, places: Places) -> Tensor:
        """Boolean, broadcastable to (B, H, t, S), of a call that was checked."""
        raise MaskError(f"{type(self).__name__} is not a mask that can be applied")

    def describe(self) -> str:
        """The expression that makes this mask; tensors by their shape."""
        return type(self).__name__.lower() + "()"

    def __repr__(self) -> str:
        return self.describe()

    def __and__(self, other: Mask) -> Mask:
        return And(_operands("&", self, other, And))

    def __or__(self, other: Mask) -> Mask:
        parts = _operands("|", self, other, Or)
        if any(part.covers_padding for part in parts):
            raise MaskError(_lifted("|", parts))
        return Or(parts)

    def __invert__(self) -> Mask:
        if isinstance(self, Bound):
            raise MaskError("a mask that is bound to positions is not inverted; invert first, bind with .at(...) last")
        if self.covers_padding:
            raise MaskError(_lifted("~", (self,)))
        return Not(self)

    def __bool__(self) -> bool:
        raise MaskError("a mask has no truth value; combine masks with &, | and ~, not with and, or, not")

    def at(self, query_positions: Tensor, key_positions: Tensor, *, length: int | None = None) -> Bound:
        """This mask where a cache says that queries and keys stand.

        Args:
            query_positions: (B or 1, T) integer.
            key_positions: (B or 1, S) integer; -1 is an empty slot, hidden from every query.
            length: One more than the largest position stored, when known without reading a tensor; then masks that
                cover fewer keys are refused. Without it, keys beyond what a mask covers are hidden.

        Raises:
            MaskError: the mask is bound already, or has an offset of its own.
            ShapeError: positions that are not (B or 1, N) integers.
        """
        if isinstance(self, Bound):
            raise MaskError("this mask is bound to positions already; bind once, where the cache is")
        if self.offset is not None:
            raise MaskError(f"{self!r} has an offset, and a cache supplies positions; leave offset away")
        for name, positions in (("query_positions", query_positions), ("key_positions", key_positions)):
            if positions.ndim != 2 or positions.dtype.is_floating_point or positions.dtype == torch.bool:
                raise ShapeError(
                    f"{name} must be integers (B or 1, N), got {positions.dtype} of shape {tuple(positions.shape)}"
                )
        return Bound(self, query_positions, key_positions, length)

    def places(
        self,
        T: int,
        S: int,
        *,
        batch: int | None = None,
        heads: int | None = None,
        device: torch.device | str | None = None,
        rows: Tensor | None = None,
    ) -> Places:
        """The call of T queries and S keys as this mask sees it, checked."""
        device = None if device is None else torch.device(device)
        places = Places(T, S, batch, heads, device, self.offset, rows)
        if isinstance(self.offset, Tensor):
            places.require_batch(f"offset of {self!r}", self.offset.shape[0])
        self.check(places)
        return places

    def materialise(
        self,
        T: int,
        S: int,
        *,
        batch: int | None = None,
        heads: int | None = None,
        device: torch.device | str | None = None,
        rows: Tensor | None = None,
    ) -> Tensor:
        """The boolean of a call of T queries and S keys; True = attend.

        Args:
            batch, heads: Sizes to check against; None checks nothing.
            rows: (t,) integer, to get these rows only.

        Returns:
            bool, four axes, each of size 1 or that of (B, H, t, S); t = T without `rows`.

        Raises:
            MaskError, ShapeError: the mask does not fit such a call; the text says how to make it fit.
        """
        return self.allowed(self.places(T, S, batch=batch, heads=heads, device=device, rows=rows))

    def draw(self, T: int, S: int | None = None, *, batch: int = 0, head: int = 0) -> str:
        """A small text drawing: a row per query, a column per key, `#` where it attends.

        >>> from regard.mask import causal
        >>> print(causal().draw(3))
        causal()
        # . .
        # # .
        # # #
        """
        from regard.core.mask.drawing import drawing

        return f"{self!r}\n{drawing(self, T, T if S is None else S, batch, head)}"


def leaf(cls: type) -> type:
    """Register a mask class as a torch pytree, so that export, compile and vmap see its tensors."""
    pytree.register_pytree_node(
        cls,
        _flatten,
        lambda children, context: _unflatten(cls, children, context),
        serialized_type_name=f"regard.core.mask.{cls.__name__}",
        flatten_with_keys_fn=_flatten_with_keys,
        to_dumpable_context=lambda context: [list(context[0]), [list(pair) for pair in context[1]]],
        from_dumpable_context=lambda text: (tuple(text[0]), tuple((k, _frozen(v)) for k, v in text[1])),
    )
    return cls


def _frozen(value: Any) -> Any:
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value


def _is_child(mask: Mask, name: str) -> bool:
    return name in type(mask).children and not isinstance(getattr(mask, name), int | torch.SymInt | None)


def _flatten(mask: Any) -> tuple[list[Any], tuple[tuple[str, ...], tuple[tuple[str, Any], ...]]]:
    names = tuple(field.name for field in fields(mask) if _is_child(mask, field.name))
    static = tuple((field.name, getattr(mask, field.name)) for field in fields(mask) if field.name not in names)
    return [getattr(mask, name) for name in names], (names, static)


def _flatten_with_keys(mask: Any) -> tuple[list[tuple[Any, Any]], Any]:
    children, context = _flatten(mask)
    return [(pytree.GetAttrKey(name), child) for name, child in zip(context[0], children, strict=True)], context


def _unflatten(cls: type, children: Sequence[Any], context: Any) -> Any:
    mask = object.__new__(cls)  # without the checks of __init__: the children may be placeholders
    for name, child in (*zip(context[0], children, strict=True), *context[1]):
        object.__setattr__(mask, name, child)
    return mask


@leaf
@dataclass(frozen=True, eq=False, repr=False)
class And(Mask):
    """Attend where every part attends."""

    parts: tuple[Mask, ...]
    children: ClassVar[tuple[str, ...]] = ("parts",)

    @property
    def offset(self) -> int | Tensor | None:
        return _shared_offset(self.parts)

    @property
    def covers_padding(self) -> bool:
        return any(part.covers_padding for part in self.parts)

    def check(self, places: Places) -> None:
        for part in self.parts:
            part.check(places)

    def allowed(self, places: Places) -> Tensor:
        result = self.parts[0].allowed(places)
        for part in self.parts[1:]:
            result = result & part.allowed(places)
        return result

    def describe(self) -> str:
        return " & ".join(f"({p!r})" if isinstance(p, Or) else repr(p) for p in self.parts)


@leaf
@dataclass(frozen=True, eq=False, repr=False)
class Or(Mask):
    """Attend where any part attends."""

    parts: tuple[Mask, ...]
    children: ClassVar[tuple[str, ...]] = ("parts",)

    @property
    def offset(self) -> int | Tensor | None:
        return _shared_offset(self.parts)

    def check(self, places: Places) -> None:
        for part in self.parts:
            part.check(places)

    def allowed(self, places: Places) -> Tensor:
        result = self.parts[0].allowed(places)
        for part in self.parts[1:]:
            result = result | part.allowed(places)
        return result

    def describe(self) -> str:
        return " | ".join(f"({p!r})" if isinstance(p, And) else repr(p) for p in self.parts)


@leaf
@dataclass(frozen=True, eq=False, repr=False)
class Not(Mask):
    """Attend where the inner mask does not."""

    inner: Mask
    children: ClassVar[tuple[str, ...]] = ("inner",)

    @property
    def offset(self) -> int | Tensor | None:
        return self.inner.offset

    def check(self, places: Places) -> None:
        self.inner.check(places)

    def allowed(self, places: Places) -> Tensor:
        return ~self.inner.allowed(places)

    def describe(self) -> str:
        return f"~({self.inner!r})" if isinstance(self.inner, And | Or) else f"~{self.inner!r}"


@leaf
@dataclass(frozen=True, eq=False, repr=False)
class Bound(Mask):
    """A mask with the positions that a cache supplied. Made by `Mask.at`."""

    inner: Mask
    query_positions: Tensor  # (B or 1, T)
    key_positions: Tensor  # (B or 1, S)
    length: int | None = None
    children: ClassVar[tuple[str, ...]] = ("inner", "query_positions", "key_positions")

    def _placed(self, places: Places) -> Places:
        return replace(
            places,
            query_positions=self.query_positions,
            key_positions=self.key_positions,
            length=self.length,
        )

    def check(self, places: Places) -> None:
        for name, positions, count in (
            ("query", self.query_positions, places.queries),
            ("key", self.key_positions, places.keys),
        ):
            places.require_batch(f"{name}_positions", positions.shape[0])
            if positions.shape[1] != count:
                raise ShapeError(f"{name}_positions has {positions.shape[1]} entries, but the call has {count}")
        self.inner.check(self._placed(places))

    def allowed(self, places: Places) -> Tensor:
        placed = self._placed(places)
        return self.inner.allowed(placed) & (placed.key() >= 0)

    def describe(self) -> str:
        return f"({self.inner!r}).at({tuple(self.query_positions.shape)}, {tuple(self.key_positions.shape)})"


def _operands(sign: str, left: Mask, right: object, kind: type) -> tuple[Mask, ...]:
    if not isinstance(right, Mask):
        hint = "; wrap it in dense(...)" if isinstance(right, Tensor) else ""
        raise MaskError(f"{sign} joins two masks, got {type(right).__name__}{hint}")
    for part in (left, right):
        if isinstance(part, Bound):
            raise MaskError("a mask that is bound to positions is not combined; combine first, bind with .at(...) last")
    parts = (
        *(left.parts if isinstance(left, kind) else (left,)),
        *(right.parts if isinstance(right, kind) else (right,)),
    )
    _shared_offset(parts)
    return parts


def _shared_offset(parts: Sequence[Mask]) -> int | Tensor | None:
    """The one offset of an expression, which holds for every leaf of it."""
    found: int | Tensor | None = None
    for part in parts:
        offset = part.offset
        if offset is None or offset is found:
            continue
        if found is not None and (isinstance(found, Tensor) or isinstance(offset, Tensor) or found != offset):
            shown = " and ".join("a tensor" if isinstance(x, Tensor) else str(x) for x in (found, offset))
            raise MaskError(f"one mask has one offset, got {shown}; give it to one part only, it holds for all")
        found = offset
    return found


def _lifted(sign: str, parts: Sequence[Mask]) -> str:
    """The refusal of padding inside | or ~, with the form that is meant."""
    padding: list[str] = []
    rest: list[str] = []
    for part in parts:
        inner = part.parts if isinstance(part, And) else (part,)
        padding += [repr(p) for p in inner if p.covers_padding]
        free = [p for p in inner if not p.covers_padding]
        if free:
            rest.append(
                repr(free[0] if len(free) == 1 else And(tuple(free))) if len(free) == 1 else f"({And(tuple(free))!r})"
            )
    name = padding[0].split("(")[0]
    if not rest:
        return f"{name} inside {sign} would show padding to every query; it joins other masks only with &"
    body = " | ".join(rest)
    form = f"~({body})" if sign == "~" else f"({body})" if len(rest) > 1 else body
    return f"{name} inside {sign} would show padding to some queries; write {form} & {' & '.join(padding)}"
