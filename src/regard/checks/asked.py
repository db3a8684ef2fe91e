"""What an error message asks for: widths, numbers of axes, and which two sizes do not fit each other."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable


def width_asked(error: str) -> int | None:
    """The width that torch's message says a layer expects."""
    for pattern in (
        r"and (\d+)x\d+\)",
        r"normalized_shape=\[(\d+)\]",
        r"to have (\d+) channels",
        r"has size (\d+) for operand 1 which",
    ):
        found = re.search(pattern, error)
        if found:
            return int(found.group(1))
    return None


def unpacks_other(error: str, axes: int) -> bool:
    """Does the message say that a shape with this many axes was unpacked into another number of names?"""
    found = re.search(r"unpack \(expected (\d+)(?:, got (\d+))?\)", error)
    return bool(found) and (int(found.group(2)) == axes if found.group(2) else int(found.group(1)) == axes - 1)


VIEW = re.compile(r"shape '\[([-\d, ]+)\]' is invalid for input of size (\d+)")


def width_viewed(error: str, widths: Iterable[int]) -> tuple[int, int] | None:
    """(what came, what fits) where a tensor is viewed with the width of another argument, one of `widths`, and only that is wrong.

    >>> width_viewed("shape '[3, 2, 4, 13]' is invalid for input of size 480", [13, 17])
    (13, 20)
    """
    found = VIEW.search(error)
    if found is None:
        return None
    shape, size = [int(n) for n in found.group(1).split(",")], int(found.group(2))
    named = [n for n in shape if n in {*widths}]
    rest = math.prod(shape) // named[0] if len(named) == 1 and min(shape) > 0 else 0
    return (named[0], size // rest) if rest and size % rest == 0 else None


def reached_beyond(error: str) -> tuple[int, int] | None:
    """(index, size) where a tensor of `size` entries is indexed with places of a longer one.

    >>> reached_beyond("IndexError: index 8 is out of bounds for dimension 1 with size 7")
    (8, 7)
    """
    found = re.search(r"index (\d+) is out of bounds for dimension \d+ with size (\d+)", error)
    return (int(found.group(1)), int(found.group(2))) if found else None


def groups_asked(error: str) -> tuple[int, int] | None:
    """(channels, groups) where a norm over groups of channels got a number that they do not divide.

    >>> groups_asked("divisible by num_groups, but got input of shape [3, 13, 5, 6] and num_groups=4")
    (13, 4)
    """
    found = re.search(r"divisible by num_groups, but got input of shape \[\d+, (\d+).* and num_groups=(\d+)", error)
    return (int(found.group(1)), int(found.group(2))) if found else None


ASKS: list[str] = [  # torch's messages that hold what came ("got") and what a layer wants ("want")
    r"shapes cannot be multiplied \(\d+x(?P<got>\d+) and (?P<want>\d+)x\d+\)",
    r"normalized_shape=\[(?P<want>\d+)\].* size ?\[(\d+, )*(?P<got>\d+)\]",
    r"to have (?P<want>\d+) channels, but got (?P<got>\d+)",
    r"inconsistent (input|hidden)_size: got (?P<got>\d+),? expected (?P<want>\d+)",
    r"Expected (?P<want>\d+), got (?P<got>\d+)",
    r"Expected hidden size \(\d+, \d+, (?P<want>\d+)\), got \[\d+, \d+, (?P<got>\d+)\]",
    r"embedding dimension of (?P<want>\d+), but got (?P<got>\d+)",
    r"weight of shape \[(?P<want>\d+)\] and input of shape \[\d+, (?P<got>\d+)",
    r"got (?P<got>\d+) but expected (?P<want>\d+)",
    r"should contain (?P<got>\d+) elements not (?P<want>\d+)",
    r"size mismatch, got input \(\d+\), mat \(\d+x(?P<got>\d+)\), vec \((?P<want>\d+)\)",
]
EITHER: list[str] = [  # messages about two sizes of which either may be the wrong one
    r"tensor a \((\d+)\) must match the size of tensor b \((\d+)\)",
    r"has size (\d+) for operand \d+ which does not broadcast with previously seen size (\d+)",
    r"batch2 tensor to be: \[\d+, (\d+)\] but got: \[\d+, (\d+)\]",
    r"Expected size (\d+) but got size (\d+) for tensor",
]


def mismatch(error: str) -> tuple[int, int, bool] | None:
    """(what came, what was wanted, may it be the other way round) for a message that holds two sizes.

    >>> mismatch("RuntimeError: mat1 and mat2 shapes cannot be multiplied (21x13 and 32x8)")
    (13, 32, False)
    >>> mismatch("RuntimeError: The size of tensor a (7) must match the size of tensor b (9) at non-singleton dimension 1")
    (7, 9, True)
    >>> mismatch("RuntimeError: stack expects each tensor to be equal size, but got [3, 11, 20] at entry 0 and [3, 7, 20] at entry 1")
    (7, 11, True)
    """
    for pattern in ASKS:
        found = re.search(pattern, error)
        if found:
            return int(found["got"]), int(found["want"]), False
    for pattern in EITHER:
        found = re.search(pattern, error)
        if found:
            return int(found.group(1)), int(found.group(2)), True
    found = re.search(r"equal size, but got \[([\d, ]+)\] at entry \d+ and \[([\d, ]+)\] at entry", error)
    if found:
        first, second = ([int(n) for n in group.split(",")] for group in found.groups())
        apart = [pair for pair in zip(first, second) if pair[0] != pair[1]]
        return (min(apart[0]), max(apart[0]), True) if len(first) == len(second) and len(apart) == 1 else None
    found = re.search(r"sum exactly to (\d+) .*split_sizes=\[([\d, ]+)\]", error)
    if found:
        return int(found.group(1)), sum(int(n) for n in found.group(2).split(",")), False
    return None
