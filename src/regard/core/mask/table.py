"""Masks that are written out: a boolean per query and key, or per block of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from regard.core.errors import MaskError, ShapeError
from regard.core.mask.expression import Mask
from regard.core.mask.places import Places, check_offset
from regard.core.mask.spans import remember_layout
from regard.core.mask.tree import leaf
from regard.core.mask.values import attend_from_additive, readable


def dense(attend: Tensor) -> Mask:
    """A mask written out. Reads the values: a mask that hides nothing costs nothing later.

    Args:
        attend: bool, True = attend, (T, S) or 4-D broadcastable to (B, H, T, S). A float of two values, 0 and
            c <= -80, is taken for the boolean it stands for. Rows are the queries of the call; under a cache columns are
            the absolute positions of all keys so far. A table over absolute positions is `blocks(attend, size=1)`.

    Raises:
        MaskError: an integer, a float with other values (that is a bias), or another number of axes.
    """
    if isinstance(attend, Tensor) and attend.dtype.is_floating_point:
        attend = attend_from_additive(attend, "the mask")
    written = from_bool(attend)
    return Dense(written.attend, full=readable(attend) and bool(attend.all()))


def from_bool(attend: object) -> Dense:
    """The mask of a bare boolean tensor; reads its dtype and shape, not its values."""
    if isinstance(attend, Dense):
        return attend
    if not isinstance(attend, Tensor):
        raise MaskError(f"a mask is a regard.mask.Mask or a bool tensor, got {type(attend).__name__}")
    if attend.dtype.is_floating_point or attend.dtype.is_complex:
        raise MaskError(
            f"a mask is bool (True = attend), got {attend.dtype}: scores to add go in as bias=; "
            f"a mask of 0 and -inf (or <= -80) goes in as regard.mask.dense(mask)"
        )
    if attend.dtype != torch.bool:
        raise MaskError(
            f"a mask is bool (True = attend), got {attend.dtype}: say which value attends, mask == 1 or mask == 0; "
            "a Hugging Face mask goes in as regard.mask.from_hf(mask)"
        )
    if attend.ndim not in (2, 4):
        hint = "; mask[None] if it is (H, T, S), mask[:, None] if it is (B, T, S)" if attend.ndim == 3 else ""
        raise MaskError(f"a bool mask is (T, S) or 4-D, broadcastable to (B, H, T, S), got {tuple(attend.shape)}{hint}")
    return Dense(attend if attend.ndim == 4 else attend[None, None])


def blocks(layout: Tensor, *, size: int | None = None, offset: int | Tensor | None = None) -> Mask:
    """Query block m sees key block n where layout[m, n].

    Args:
        layout: bool (M, N), or 4-D broadcastable to (B, H, M, N).
        size: Tokens per block; None divides T by M and S by N, which must come out even.
        offset: As for `causal`; needed with `size` where T != S.
    """
    if not isinstance(layout, Tensor) or layout.dtype != torch.bool or layout.ndim not in (2, 4):
        got = f"{layout.dtype} of shape {tuple(layout.shape)}" if isinstance(layout, Tensor) else type(layout).__name__
        raise MaskError(f"layout of blocks() must be bool (M, N) or 4-D, got {got}")
    if size is not None and (not isinstance(size, int) or size < 1):
        raise MaskError(f"size of blocks() must be None or an int >= 1, got {size!r}")
    check_offset("blocks", offset)
    layout = layout if layout.ndim == 4 else layout[None, None]
    remember_layout(layout)
    return Blocks(layout, size, offset)


@leaf
@dataclass(frozen=True, eq=False, repr=False)
class Dense(Mask):
    """attend[b, h, row, column]. `full`: a constructor has read that all is True."""

    attend: Tensor  # bool, four axes, each of full size or 1
    full: bool = False
    children: ClassVar[tuple[str, ...]] = ("attend",)

    def check(self, places: Places) -> None:
        self._check_lengths(places)
        places.require_batch("the mask", self.attend.shape[0])
        places.require_heads("the mask", self.attend.shape[1])

    def _check_lengths(self, places: Places) -> None:
        B, H, T, S = self.attend.shape
        if places.bound and places.length is not None and S > 1 and places.length > S:
            raise ShapeError(f"the mask covers {S} keys, but {places.length} are stored; it must cover all keys so far")
        fits = T in (1, places.queries) and (places.bound or S in (1, places.keys))
        if fits:
            return
        shape = (T, S) if B == H == 1 else (B, H, T, S)
        is_key_mask = B == H == 1 and places.batch == T and places.keys == S
        hint = "; a key mask (B, S) goes in as regard.mask.padding(mask)" if is_key_mask else ""
        raise ShapeError(f"the mask is {shape}, but the call has {places.queries} queries and {places.keys} keys{hint}")

    def allowed(self, places: Places) -> Tensor:
        attend = self.attend if places.device is None else self.attend.to(places.device)
        if places.rows is not None and attend.shape[2] != 1:
            attend = attend[:, :, places.rows]
        if not places.bound or attend.shape[3] == 1:
            return attend
        row = torch.arange(attend.shape[2], device=attend.device)
        return at_positions(attend, row[None], places.key()[:, 0, 0, :])

    def describe(self) -> str:
        shape = tuple(self.attend.shape)
        return f"dense(<{shape[2:] if shape[:2] == (1, 1) else shape}>)"


@leaf
@dataclass(frozen=True, eq=False, repr=False)
class Blocks(Mask):
    """layout[b, h, query // size, key // size]."""

    layout: Tensor  # bool, four axes
    size: int | None = None
    offset: int | Tensor | None = None
    children: ClassVar[tuple[str, ...]] = ("layout", "offset")

    def sizes(self, places: Places) -> tuple[int, int]:
        """Tokens per block of queries and of keys."""
        if self.size is not None:
            return self.size, self.size
        return max(1, places.queries // self.layout.shape[2]), max(1, places.keys // self.layout.shape[3])

    def check(self, places: Places) -> None:
        B, H, M, N = self.layout.shape
        places.require_batch("layout of blocks()", B)
        places.require_heads("layout of blocks()", H)
        if self.size is not None:
            places.require_query_positions("blocks")
            if not places.bound and places.keys > N * self.size:
                raise ShapeError(f"blocks() covers {N} x {self.size} keys, but the call has {places.keys}")
            return
        if places.bound:
            raise MaskError("blocks() under a cache needs size=, the tokens per block")
        if M == 0 or N == 0 or places.queries % M or places.keys % N:
            raise ShapeError(
                f"{M} x {N} blocks do not divide {places.queries} queries and {places.keys} keys evenly; give size="
            )

    def allowed(self, places: Places) -> Tensor:
        rows, columns = self.sizes(places)
        query = places.query() if self.size is not None else places.row()[None, None, :, None]
        key = places.key()
        layout = self.layout.to(key.device)
        floor = [torch.div(p, n, rounding_mode="floor") for p, n in ((query, rows), (key, columns))]
        return at_positions(layout, floor[0][:, 0, :, 0], floor[1][:, 0, 0, :])

    def describe(self) -> str:
        shape = tuple(self.layout.shape)
        rest = "" if self.size is None else f", size={self.size}"
        if self.offset is not None:
            rest += f", offset={'<tensor>' if isinstance(self.offset, Tensor) else self.offset}"
        return f"blocks(<{shape[2:] if shape[:2] == (1, 1) else shape}>{rest})"


def at_positions(table: Tensor, query: Tensor, key: Tensor) -> Tensor:
    """(B, H, T, S): table[b, h, query[b, t], key[b, s]]; False outside the table.

    Args:
        table: bool (B or 1, H or 1, P, Q). query: (B or 1, T). key: (B or 1, S).
    """
    P, Q = table.shape[2:]
    inside = ((query >= 0) & (query < P))[:, None, :, None] & ((key >= 0) & (key < Q))[:, None, None, :]
    batch = max(table.shape[0], query.shape[0], key.shape[0])
    sample = torch.arange(batch, device=key.device)[:, None, None] if table.shape[0] > 1 else 0
    rows = query.clamp(0, max(P - 1, 0))[:, :, None]  # (B or 1, T, 1)
    columns = key.clamp(0, max(Q - 1, 0))[:, None, :]  # (B or 1, 1, S)
    found = table.permute(0, 2, 3, 1)[sample, rows, columns]  # (B or 1, T, S, H or 1)
    return found.permute(0, 3, 1, 2) & inside
