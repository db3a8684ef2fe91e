"""Masks of whole sequences in a batch: which keys are padding, and which belong to the same document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from regard.core.errors import MaskError, ShapeError
from regard.core.mask.expression import Mask
from regard.core.mask.places import Places, check_offset
from regard.core.mask.spans import remember_documents, remember_lengths, remember_padding
from regard.core.mask.tree import leaf
from regard.core.mask.values import readable


def padding(keep: Tensor | None = None, *, lengths: Tensor | Sequence[int] | None = None) -> Mask:
    """Hide the keys that are padding. Give one of the two.

    Args:
        keep: (B, S) bool, True = a real key. With a cache it covers all keys so far, by absolute position.
        lengths: (B,) integer: keys 0 .. lengths - 1 are real.

    Raises:
        MaskError: another dtype or shape (polarity and meaning are never guessed), a length that is negative or not a
            whole number.
    """
    if (keep is None) == (lengths is None):
        raise MaskError("padding() takes keep or lengths, and exactly one of them")
    if lengths is not None:
        counts = _counted(lengths)
        remember_lengths(counts)
        return Lengths(counts)
    if not isinstance(keep, Tensor):
        raise MaskError(f"keep of padding() must be a bool tensor (B, S), got {type(keep).__name__}")
    if keep.dtype != torch.bool:
        raise MaskError(
            f"keep of padding() must be bool (B, S), True = real key, got {keep.dtype}: say which value is real, "
            "padding(x == 1), or from_hf(x) for a Hugging Face mask; lengths go in as padding(lengths=x)"
        )
    if keep.ndim != 2:
        raise MaskError(f"keep of padding() must be (B, S), got shape {tuple(keep.shape)}")
    remember_padding(keep)
    return Padding(keep)


def documents(ids: Tensor, *, offset: int | Tensor | None = None) -> Mask:
    """A query sees the keys of its own document; a negative id is padding, which sees nothing and is seen by nobody.

    Args:
        ids: (B, S) or (S,) integer: the document of each absolute position.
        offset: As for `causal`.
    """
    if not isinstance(ids, Tensor) or ids.dtype.is_floating_point or ids.dtype == torch.bool or ids.ndim not in (1, 2):
        got = f"{ids.dtype} of shape {tuple(ids.shape)}" if isinstance(ids, Tensor) else type(ids).__name__
        raise MaskError(f"ids of documents() must be an integer tensor (B, S) or (S,), got {got}")
    check_offset("documents", offset)
    remember_documents(ids)
    return Documents(ids, offset)


@leaf
@dataclass(frozen=True, eq=False, repr=False)
class Padding(Mask):
    """keep[sample, key]. `full`: a converter has read that everything is kept, so nothing need be hidden."""

    keep: Tensor  # (B, S) bool
    full: bool = False
    children: ClassVar[tuple[str, ...]] = ("keep",)
    covers_padding: ClassVar[bool] = True

    def check(self, places: Places) -> None:
        places.require_batch("keep of padding()", self.keep.shape[0])
        _require_cover("keep of padding()", self.keep.shape[1], places)

    def allowed(self, places: Places) -> Tensor:
        keep = self.keep if places.device is None else self.keep.to(places.device)
        return look_up(keep, places)[:, None, None, :]

    def describe(self) -> str:
        return f"padding(<{tuple(self.keep.shape)}>)"


@leaf
@dataclass(frozen=True, eq=False, repr=False)
class Lengths(Mask):
    """key < lengths[sample]."""

    lengths: Tensor  # (B,) integer
    children: ClassVar[tuple[str, ...]] = ("lengths",)
    covers_padding: ClassVar[bool] = True

    def check(self, places: Places) -> None:
        places.require_batch("lengths of padding()", self.lengths.shape[0])

    def allowed(self, places: Places) -> Tensor:
        key = places.key()
        return key < self.lengths.to(key.device)[:, None, None, None]

    def describe(self) -> str:
        return f"padding(lengths=<{tuple(self.lengths.shape)}>)"


@leaf
@dataclass(frozen=True, eq=False, repr=False)
class Documents(Mask):
    """ids[query] == ids[key], and neither is negative."""

    ids: Tensor  # (B, S) or (S,) integer
    offset: int | Tensor | None = None
    children: ClassVar[tuple[str, ...]] = ("ids", "offset")
    covers_padding: ClassVar[bool] = True

    def check(self, places: Places) -> None:
        places.require_query_positions("documents")
        if self.ids.ndim == 2:
            places.require_batch("ids of documents()", self.ids.shape[0])
        _require_cover("ids of documents()", self.ids.shape[-1], places)

    def allowed(self, places: Places) -> Tensor:
        key = places.key()
        ids = (self.ids if self.ids.ndim == 2 else self.ids[None]).to(key.device)
        of_query = gather(ids, places.query()[:, 0, :, 0], empty=-1)[:, None, :, None]
        of_key = gather(ids, key[:, 0, 0, :], empty=-1)[:, None, None, :]
        return (of_query == of_key) & (of_key >= 0)

    def describe(self) -> str:
        rest = (
            "" if self.offset is None else f", offset={'<tensor>' if isinstance(self.offset, Tensor) else self.offset}"
        )
        return f"documents(<{tuple(self.ids.shape)}>{rest})"


def look_up(table: Tensor, places: Places) -> Tensor:
    """(B or 1, S): the entry of each key of the call in a (B, positions) table; False where a key has none."""
    return gather(table, places.key()[:, 0, 0, :], empty=False) if places.bound else table


def gather(table: Tensor, positions: Tensor, *, empty: int | bool) -> Tensor:
    """(B, N): table[b, positions[b, n]], and `empty` where a position is outside the table.

    Args:
        table: (B or 1, P). positions: (B or 1, N).
    """
    outside = (positions < 0) | (positions >= table.shape[1])
    if table.shape[1] == 0:
        return torch.full_like(positions, empty, dtype=table.dtype)
    batch = max(table.shape[0], positions.shape[0])
    inside = positions.clamp(0, table.shape[1] - 1).long().expand(batch, -1)
    return table.expand(batch, -1).gather(1, inside).masked_fill(outside, empty)


def _require_cover(what: str, width: int, places: Places) -> None:
    """Every key so far must be covered: exactly S without a cache, at least `length` with one."""
    if places.bound:
        if places.length is not None and width < places.length:
            raise ShapeError(
                f"{what} covers {width} keys, but {places.length} are stored; it must cover all keys so far"
            )
    elif width != places.keys:
        raise ShapeError(f"{what} covers {width} keys, but the call has {places.keys}")


def _counted(lengths: Tensor | Sequence[int]) -> Tensor:
    counts = lengths if isinstance(lengths, Tensor) else torch.as_tensor(lengths)
    if counts.ndim != 1:
        raise MaskError(f"lengths of padding() must be (B,), got shape {tuple(counts.shape)}")
    if counts.dtype.is_floating_point and readable(counts) and bool(counts.isnan().any()):
        raise MaskError(
            f"lengths of padding() has NaN at sample {int(counts.isnan().nonzero()[0])}; give whole numbers"
        )
    if counts.dtype not in (torch.int64, torch.int32, torch.int16, torch.uint8, torch.int8):
        raise MaskError(f"lengths of padding() must be integers, got {counts.dtype}")
    if readable(counts) and bool((counts < 0).any()):
        raise MaskError(f"lengths of padding() must not be negative, got {int(counts.min())}")
    return counts
