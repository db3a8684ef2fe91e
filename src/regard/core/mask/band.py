"""Masks of the distance between query and key: causal, sliding window, dilated window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from regard.core.errors import MaskError
from regard.core.mask.expression import Mask
from regard.core.mask.places import Places, check_offset
from regard.core.mask.tree import leaf


def causal(*, offset: int | Tensor | None = None) -> Mask:
    """No query sees a later key: key <= query, in absolute positions.

    Args:
        offset: Position of query 0, int or (B,) integer: 0 = top-left, S - T = bottom-right. Needed where T != S and no
            cache supplies positions; `&` and `|` pass it to every part.
    """
    check_offset("causal", offset)
    return Band(None, 0, offset)


def sliding_window(left: int | None = None, right: int | None = None, *, offset: int | Tensor | None = None) -> Mask:
    """Keys from query - left to query + right, self included: left + right + 1 keys.

    Args:
        left, right: How far to look back and ahead, in tokens; None is unbounded.
        offset: As for `causal`.

    `causal() & sliding_window(left=W - 1)` is the "window W" of Mistral and Hugging Face.
    """
    for name, reach in (("left", left), ("right", right)):
        if reach is not None and (not isinstance(reach, int) or isinstance(reach, bool) or reach < 0):
            raise MaskError(f"{name} of sliding_window() must be None or an int >= 0, got {reach!r}")
    check_offset("sliding_window", offset)
    return Band(left, right, offset)


def dilated(
    step: int, left: int | None = None, right: int | None = None, *, offset: int | Tensor | None = None
) -> Mask:
    """Every step-th key around the query: query + m * step for -left <= m <= right: left + right + 1 keys.

    Args:
        step: Distance between two seen keys; 1 is `sliding_window`.
        left, right: Number of keys seen on each side; None is unbounded.
        offset: As for `causal`.
    """
    if not isinstance(step, int) or isinstance(step, bool) or step < 1:
        raise MaskError(f"step of dilated() must be an int >= 1, got {step!r}")
    for name, count in (("left", left), ("right", right)):
        if count is not None and (not isinstance(count, int) or isinstance(count, bool) or count < 0):
            raise MaskError(f"{name} of dilated() must be None or an int >= 0, got {count!r}")
    check_offset("dilated", offset)
    return Dilated(step, left, right, offset)


@leaf
@dataclass(frozen=True, eq=False, repr=False)
class Band(Mask):
    """-left <= key - query <= right; None is unbounded. (None, 0) is causal."""

    left: int | None
    right: int | None
    offset: int | Tensor | None = None
    children: ClassVar[tuple[str, ...]] = ("offset",)

    def check(self, places: Places) -> None:
        name = "causal" if (self.left, self.right) == (None, 0) else "sliding_window"
        places.require_query_positions(name)

    def allowed(self, places: Places) -> Tensor:
        return within(places.key() - places.query(), self.left, self.right)

    def describe(self) -> str:
        if (self.left, self.right) == (None, 0):
            return f"causal({_arguments(offset=self.offset)})"
        return f"sliding_window({_arguments(left=self.left, right=self.right, offset=self.offset)})"


@leaf
@dataclass(frozen=True, eq=False, repr=False)
class Dilated(Mask):
    """key - query is a multiple of step, between -left * step and right * step."""

    step: int
    left: int | None
    right: int | None
    offset: int | Tensor | None = None
    children: ClassVar[tuple[str, ...]] = ("offset",)

    def check(self, places: Places) -> None:
        places.require_query_positions("dilated")

    def allowed(self, places: Places) -> Tensor:
        distance = places.key() - places.query()
        reach = [None if count is None else count * self.step for count in (self.left, self.right)]
        return within(distance, *reach) & (distance % self.step == 0)

    def describe(self) -> str:
        return f"dilated({_arguments(step=self.step, left=self.left, right=self.right, offset=self.offset)})"


def within(distance: Tensor, left: int | None, right: int | None) -> Tensor:
    """-left <= distance <= right, elementwise; None is unbounded."""
    if left is None and right is None:
        return distance == distance  # everything, in the shape of the distance
    if right is None:
        return distance >= -(left or 0)
    return distance <= right if left is None else (distance >= -left) & (distance <= right)


def _arguments(**values: int | Tensor | None) -> str:
    shown = {k: f"<{tuple(v.shape)}>" if isinstance(v, Tensor) else v for k, v in values.items() if v is not None}
    return ", ".join(f"{name}={value}" for name, value in shown.items())
