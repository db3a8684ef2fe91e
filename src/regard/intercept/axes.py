"""Where each axis of a tensor came from: a small algebra that follows views, permutations and broadcasts of one matrix product.

An axis is a tuple of atoms, outermost first; () is an axis of size 1. An atom (label, size, stride) is a part of an axis of the
product: label "b" (batch), "l" (rows of the left operand), "r" (columns of the right operand), "e" (made by broadcasting), or
"x" (unknown origin); `stride` is its step inside the labelled axis, so that an axis that was split can be put together again.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple


class Atom(NamedTuple):
    label: str
    size: int
    stride: int = 1


Axis = tuple[Atom, ...]
Axes = tuple[Axis, ...]


def fresh(labels: Sequence[str], shape: Sequence[int]) -> Axes:
    """One atom per axis of `shape`, with the given labels."""
    return tuple((Atom(name, size),) if size != 1 else () for name, size in zip(labels, shape))


def unknown(shape: Sequence[int]) -> Axes:
    """Axes of which only the place is known: labels "x0", "x1", ..."""
    return fresh([f"x{i}" for i in range(len(shape))], shape)


def viewed(axes: Axes, shape: Sequence[int]) -> Axes | None:
    """The axes after `view(shape)` of a contiguous tensor; None where an axis would cut through an atom."""
    left = [atom for axis in axes for atom in axis]
    result = []
    for size in shape:
        taken, room = [], size
        while room > 1:
            if not left:
                return None
            atom = left.pop(0)
            if room % atom.size == 0:
                taken.append(atom)
                room //= atom.size
            elif atom.size % room == 0:
                inner = atom.size // room
                taken.append(Atom(atom.label, room, atom.stride * inner))
                left.insert(0, Atom(atom.label, inner, atom.stride))
                room = 1
            else:
                return None
        result.append(tuple(taken))
    return None if left else tuple(result)


def broadcast(axes: Axes, shape: Sequence[int]) -> Axes | None:
    """The axes after broadcasting to `shape` (aligned at the right)."""
    if len(axes) > len(shape):
        return None
    padded = ((),) * (len(shape) - len(axes)) + axes
    result = []
    for axis, size in zip(padded, shape):
        have = prod(a.size for a in axis)
        if have == size:
            result.append(axis)
        elif have == 1:
            result.append((Atom("e", size),))
        else:
            return None
    return tuple(result)


def resized(axes: Axes, shape: Sequence[int]) -> Axes | None:
    """The axes after a slice or a concatenation: same rank, one or more axes longer or shorter."""
    if len(axes) != len(shape):
        return None
    result = []
    for place, (axis, size) in enumerate(zip(axes, shape)):
        if prod(a.size for a in axis) == size:
            result.append(axis)
        else:
            label = axis[0].label if axis else f"x{place}"
            result.append((Atom(label, size),) if size > 1 else ())
    return tuple(result)


def labels(axis: Axis) -> set[str]:
    """The labels that an axis is made of."""
    return {atom.label for atom in axis}


def overlaps(one: Axis, other: Axis) -> bool:
    """Whether two axes hold parts of the same axis of the product: same label, and strides that meet."""
    return any(
        a.label == b.label and a.stride < b.stride * b.size and b.stride < a.stride * a.size for a in one for b in other
    )
