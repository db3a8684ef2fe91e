"""The form of a mask, so that a backend can choose without reading a value.

A mask is a conjunction of factors: bands (causal, windows) that merge into one, key padding, documents, and the rest.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.core.mask.band import Band
from regard.core.mask.expression import And, Bound, Mask
from regard.core.mask.places import Places
from regard.core.mask.sequences import Documents, Lengths, Padding
from regard.core.mask.table import Dense


@dataclass(frozen=True)
class Structure:
    """What a mask consists of.

    Attributes:
        left, right: The one band that all bands make together, -left <= key - query <= right; None is unbounded.
        offset: Position of query 0: int, (B,), or None where a cache binds positions.
        padding: The key masks.
        documents: The document masks.
        rest: Every other factor; only `materialise` can tell what it hides.
        bound: A cache supplies positions: nothing here is relative to the row and column of the call.
    """

    left: int | None = None
    right: int | None = None
    offset: int | Tensor | None = 0
    padding: tuple[Padding | Lengths, ...] = ()
    documents: tuple[Documents, ...] = ()
    rest: tuple[Mask, ...] = ()
    bound: bool = False

    @property
    def banded(self) -> bool:
        """Whether the distance of query and key matters."""
        return self.left is not None or self.right is not None

    @property
    def plain(self) -> bool:
        """Only a band at an int offset and key padding: all that can be said in a range per row and a key mask."""
        return not self.bound and isinstance(self.offset, int) and len(self.rest) + len(self.documents) == 0

    @property
    def empty(self) -> bool:
        """Hides nothing."""
        return self.plain and not self.banded and len(self.padding) == 0

    @property
    def causal(self) -> bool:
        """Exactly the causal mask with query 0 at position 0, and nothing else."""
        band = self.left is None and self.right == 0 and isinstance(self.offset, int) and self.offset == 0
        return band and self.plain and len(self.padding) == 0

    def within(self, T: int, S: int) -> Structure:
        """Without the sides of the band that reach beyond a call of T queries and S keys.

        So the one query of a decoding step, which sees all keys, has no mask at all. Sizes that are not known while
        exporting decide nothing.
        """
        if self.bound or not isinstance(self.offset, int):
            return self
        left, right = self.left, self.right
        if left is not None and _known(left >= self.offset + T - 1):
            left = None
        if right is not None and _known(self.offset + right >= S - 1):
            right = None
        return replace(self, left=left, right=right)

    def key_mask(self, places: Places) -> Tensor | None:
        """(B or 1, 1, 1, S) bool: the key masks together; None without any."""
        result: Tensor | None = None
        for part in self.padding:
            keep = part.allowed(places)
            result = keep if result is None else result & keep
        return result


def of(mask: Mask | None) -> Structure:
    """The structure of a mask; of None, one that hides nothing."""
    if mask is None:
        return Structure()
    if isinstance(mask, Bound):
        return Structure(offset=None, rest=(mask,), bound=True)
    left, right = None, None
    padding, documents, rest = [], [], []
    for factor in mask.parts if isinstance(mask, And) else (mask,):
        if isinstance(factor, Band):
            left = _nearer(left, factor.left)
            right = _nearer(right, factor.right)
        elif isinstance(factor, Padding | Dense) and factor.full:
            continue
        elif isinstance(factor, Padding | Lengths):
            padding.append(factor)
        elif isinstance(factor, Documents):
            documents.append(factor)
        else:
            rest.append(factor)
    offset = 0 if mask.offset is None else mask.offset
    return Structure(left, right, offset, tuple(padding), tuple(documents), tuple(rest))


def _known(condition: bool) -> bool:
    """Whether it holds for certain; while tracing, without making the graph depend on it."""
    if isinstance(condition, bool) and not torch.compiler.is_compiling():
        return condition
    from torch.fx.experimental.symbolic_shapes import statically_known_true  # takes 0.3 s to load

    return statically_known_true(condition)


def _nearer(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else min(one, other)
