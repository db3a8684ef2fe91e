"""The mask of a part of an attention: of some rows and a range of keys, or of some heads.

Axes: B samples, H query heads, T queries and S keys of the whole sequence.
Bands, key padding and documents keep their form, so that a backend can still choose by it; any other mask is written out
for the rows of one process, which is its share of the T x S booleans.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.core.mask import structure
from regard.core.mask.band import sliding_window
from regard.core.mask.expression import Mask
from regard.core.mask.sequences import Lengths, documents, padding
from regard.core.mask.table import from_bool


@dataclass(frozen=True)
class Whole:
    """A mask over the whole sequence, checked against its sizes.

    Raises on construction through `of`:
        MaskError, ShapeError: It does not fit (B, H, T, S), with the numbers of the whole sequence.
    """

    mask: Mask | None
    sizes: tuple[int, int, int, int]
    device: torch.device

    @classmethod
    def of(cls, mask: Mask | Tensor | None, sizes: tuple[int, int, int, int], device: torch.device) -> Whole:
        B, H, T, S = sizes
        fitted = None if mask is None else mask if isinstance(mask, Mask) else from_bool(mask)
        if fitted is not None:
            fitted.places(T, S, batch=B, heads=H, device=device)
        return cls(fitted, sizes, device)

    def reach(self, rows: tuple[int, int]) -> tuple[int, int]:
        """First key that these rows can see, and one past the last; all of them where that cannot be told from the form."""
        form, S = structure.of(self.mask), self.sizes[3]
        if not self._formed(form):
            return 0, S
        assert isinstance(form.offset, int)
        first = 0 if form.left is None else form.offset + rows[0] - form.left
        last = S if form.right is None else form.offset + rows[1] + form.right
        first, last = min(max(first, 0), S), min(max(last, 0), S)
        return first, max(first, last)

    def rows(self, rows: tuple[int, int], keys: tuple[int, int]) -> Mask | Tensor | None:
        """The mask of queries rows[0] .. rows[1] - 1 and keys keys[0] .. keys[1] - 1, numbered from 0."""
        if self.mask is None:
            return None
        form = structure.of(self.mask)
        if not self._formed(form):
            return self._written(torch.arange(*rows, device=self.device))[..., keys[0] : keys[1]]
        assert isinstance(form.offset, int)
        offset = form.offset + rows[0] - keys[0]
        parts: list[Mask] = []
        if form.banded:
            parts.append(sliding_window(form.left, form.right, offset=offset))
        for part in form.padding:
            if isinstance(part, Lengths):
                place = torch.arange(*keys, device=part.lengths.device)
                parts.append(padding(place < part.lengths[:, None]))
            else:
                parts.append(padding(part.keep[:, keys[0] : keys[1]]))
        parts += [documents(part.ids[..., keys[0] : keys[1]], offset=offset) for part in form.documents]
        result = None
        for part in parts:
            result = part if result is None else result & part
        return result

    def heads(self, first: int, last: int) -> Mask | Tensor | None:
        """The mask of these query heads, for all rows and keys."""
        if self.mask is None or not _per_head(self.mask):
            return self.mask
        attend = self._written(None)
        return attend[:, first:last] if attend.shape[1] > 1 else attend

    def _formed(self, form: structure.Structure) -> bool:
        """Whether a part of the mask can be said without writing it out."""
        square = self.sizes[2] == self.sizes[3] or not form.documents  # documents number queries and keys alike
        return not form.bound and not form.rest and isinstance(form.offset, int) and square

    def _written(self, rows: Tensor | None) -> Tensor:
        assert self.mask is not None
        B, H, T, S = self.sizes
        attend = self.mask.materialise(T, S, batch=B, heads=H, device=self.device, rows=rows)
        return attend.expand(-1, -1, T if rows is None else len(rows), S)


def _per_head(mask: Mask) -> bool:
    """Whether any table in the expression has an axis of heads."""
    for name in mask.children:
        held = getattr(mask, name)
        for part in held if isinstance(held, tuple) else (held,):
            if isinstance(part, Mask) and _per_head(part):
                return True
            if isinstance(part, Tensor) and part.ndim == 4 and part.shape[1] > 1:
                return True
    return False
