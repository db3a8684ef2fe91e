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
from typing import ClassVar

import torch
from torch import Tensor

from regard.core.errors import MaskError, ShapeError
from regard.core.mask.places import Places
from regard.core.mask.tree import leaf


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

    def starting_at(self, offset: int | Tensor) -> Mask:
        """This mask with query 0 at position `offset`, int or (B,), in every part; for a cache whose keys stand at 0 .. S - 1.

        Unlike `at` it keeps the structure: what was causal is still known to be causal.

        Raises:
            MaskError: the mask has an offset of its own, or is bound to positions.
        """
        if isinstance(self, Bound) or self.offset is not None:
            raise MaskError(f"{self!r} says already where its queries stand; leave its offset away")
        return self._shifted(offset)

    def _shifted(self, offset: int | Tensor) -> Mask:
        return replace(self, offset=offset) if any(field.name == "offset" for field in fields(self)) else self  # pyright: ignore[reportArgumentType]

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


@dataclass(frozen=True, eq=False, repr=False)
class Joined(Mask):
    """Several masks in one, all at the same offset."""

    parts: tuple[Mask, ...]
    children: ClassVar[tuple[str, ...]] = ("parts",)

    @property
    def offset(self) -> int | Tensor | None:
        return next((part.offset for part in self.parts if part.offset is not None), None)

    @property
    def covers_padding(self) -> bool:
        return any(part.covers_padding for part in self.parts)

    def _shifted(self, offset: int | Tensor) -> Mask:
        return type(self)(tuple(part._shifted(offset) for part in self.parts))

    def check(self, places: Places) -> None:
        for part in self.parts:
            part.check(places)


@leaf
@dataclass(frozen=True, eq=False, repr=False)
class And(Joined):
    """Attend where every part attends."""

    def allowed(self, places: Places) -> Tensor:
        result = self.parts[0].allowed(places)
        for part in self.parts[1:]:
            result = result & part.allowed(places)
        return result

    def describe(self) -> str:
        return " & ".join(f"({part!r})" if isinstance(part, Or) else repr(part) for part in self.parts)


@leaf
@dataclass(frozen=True, eq=False, repr=False)
class Or(Joined):
    """Attend where any part attends."""

    def allowed(self, places: Places) -> Tensor:
        result = self.parts[0].allowed(places)
        for part in self.parts[1:]:
            result = result | part.allowed(places)
        return result

    def describe(self) -> str:
        return " | ".join(f"({part!r})" if isinstance(part, And) else repr(part) for part in self.parts)


@leaf
@dataclass(frozen=True, eq=False, repr=False)
class Not(Mask):
    """Attend where the inner mask does not."""

    inner: Mask
    children: ClassVar[tuple[str, ...]] = ("inner",)

    @property
    def offset(self) -> int | Tensor | None:
        return self.inner.offset

    def _shifted(self, offset: int | Tensor) -> Mask:
        return Not(self.inner._shifted(offset))

    def check(self, places: Places) -> None:
        self.inner.check(places)

    def allowed(self, places: Places) -> Tensor:
        return ~self.inner.allowed(places)

    def describe(self) -> str:
        return f"~({self.inner!r})" if isinstance(self.inner, Joined) else f"~{self.inner!r}"


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


def _operands(sign: str, left: Mask, right: object, kind: type[Joined]) -> tuple[Mask, ...]:
    if not isinstance(right, Mask):
        hint = "; wrap it in dense(...)" if isinstance(right, Tensor) else ""
        raise MaskError(f"{sign} joins two masks, got {type(right).__name__}{hint}")
    if isinstance(left, Bound) or isinstance(right, Bound):
        raise MaskError("a mask that is bound to positions is not combined; combine first, bind with .at(...) last")
    _check_offsets(left.offset, right.offset)
    flat = [mask.parts if isinstance(mask, kind) else (mask,) for mask in (left, right)]
    return (*flat[0], *flat[1])


def _check_offsets(one: int | Tensor | None, other: int | Tensor | None) -> None:
    """One offset holds for every leaf of an expression. Tensors are compared by identity, never by value."""
    if one is None or other is None or one is other:
        return
    if isinstance(one, Tensor) or isinstance(other, Tensor) or one != other:
        shown = " and ".join("a tensor" if isinstance(x, Tensor) else str(x) for x in (one, other))
        raise MaskError(f"one mask has one offset, got {shown}; give it to one part only, it holds for all")


def _lifted(sign: str, parts: Sequence[Mask]) -> str:
    """The refusal of padding inside | or ~, with the form that is meant."""
    padding, rest = [], []
    for part in parts:
        factors = part.parts if isinstance(part, And) else (part,)
        padding += [repr(factor) for factor in factors if factor.covers_padding]
        free = [factor for factor in factors if not factor.covers_padding]
        rest += [And(tuple(free)) if len(free) > 1 else free[0]] if free else []
    name = padding[0].split("(")[0]
    if not rest:
        return f"{name} inside {sign} would show padding to queries; it joins other masks only with &"
    form = repr(Not(rest[0])) if sign == "~" else f"({Or(tuple(rest))!r})" if len(rest) > 1 else repr(rest[0])
    return f"{name} inside {sign} would show padding to queries; write {form} & {' & '.join(padding)}"
