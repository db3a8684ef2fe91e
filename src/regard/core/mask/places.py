"""Where the queries and keys of one call stand: the absolute positions that every mask is a predicate over.

Axes: B samples, H query heads, T queries, S keys.
Without a cache key j stands at j, and query i at offset + i. A cache binds both per sample; -1 is an empty slot.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.core.errors import MaskError, ShapeError


@dataclass(frozen=True)
class Places:
    """One call, as a mask sees it.

    Attributes:
        queries, keys: T and S of the call.
        batch, heads: B and H, or None where nobody has said (a drawing); then sizes are not checked against them.
        offset: Where query 0 stands: int, (B,) integer, or None (0, allowed only where T == S).
        rows: (t,) chosen rows of the call, integer; None = all T.
        query_positions, key_positions: (B or 1, T) and (B or 1, S), set by `Mask.at`; -1 = empty.
        length: Number of positions used so far, where the cache knows it without looking at tensors.
    """

    queries: int
    keys: int
    batch: int | None = None
    heads: int | None = None
    device: torch.device | None = None
    offset: int | Tensor | None = None
    rows: Tensor | None = None
    query_positions: Tensor | None = None
    key_positions: Tensor | None = None
    length: int | None = None

    @property
    def bound(self) -> bool:
        """Whether a cache has said where everything stands."""
        return self.key_positions is not None

    def row(self) -> Tensor:
        """(t,) index of each wanted row in the call."""
        return torch.arange(self.queries, device=self.device) if self.rows is None else self.rows

    def query(self) -> Tensor:
        """(B or 1, 1, t, 1) absolute position of each wanted query."""
        if self.query_positions is not None:
            chosen = self.query_positions if self.rows is None else self.query_positions[:, self.rows]
            return chosen[:, None, :, None]
        row = self.row()[None, None, :, None]
        if isinstance(self.offset, Tensor):
            return row + self.offset.to(row.device)[:, None, None, None]
        return row + (self.offset or 0)

    def key(self) -> Tensor:
        """(B or 1, 1, 1, S) absolute position of each key."""
        if self.key_positions is not None:
            return self.key_positions[:, None, None, :]
        return torch.arange(self.keys, device=self.device)[None, None, None, :]

    def require_query_positions(self, name: str, way: str = "") -> None:
        """Refuse a mask that needs to know where the queries stand when nobody has said so."""
        if self.bound or self.offset is not None or self.queries == self.keys:
            return
        raise MaskError(
            f"{name}() with {self.queries} queries and {self.keys} keys: say where query 0 stands, "
            f"{name}(..., offset={self.keys - self.queries}) for the last {self.queries} (bottom-right) "
            f"or offset=0 for the first (top-left){way}"
        )

    def require_batch(self, what: str, size: int) -> None:
        """Refuse a per-sample tensor of another batch size."""
        if self.batch is not None and size != 1 and size != self.batch:
            raise ShapeError(f"{what} is for {size} samples, but the call has {self.batch}")

    def require_heads(self, what: str, size: int) -> None:
        """Refuse a per-head tensor of another number of heads."""
        if self.heads is not None and size != 1 and size != self.heads:
            raise ShapeError(f"{what} is for {size} heads, but the call has {self.heads}")


def check_offset(name: str, offset: int | Tensor | None) -> None:
    """Refuse an offset that is neither an int nor an integer tensor of shape (B,)."""
    if offset is None or (isinstance(offset, int | torch.SymInt) and not isinstance(offset, bool)):
        return
    if not isinstance(offset, Tensor):
        raise MaskError(f"offset of {name}() must be an int or an integer tensor (B,), got {type(offset).__name__}")
    if offset.ndim != 1 or offset.dtype not in (torch.int64, torch.int32):
        raise MaskError(
            f"offset of {name}() must be an int or an integer tensor (B,), got {offset.dtype} of shape {tuple(offset.shape)}"
        )
