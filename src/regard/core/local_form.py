"""Masks that are local: a band of bounded width, every step-th key of one, and a few tokens that see and are seen by all.

Axes: B samples, Hkv key heads, T queries, S keys.
`sliding_window`, `causal() & sliding_window`, `dilated`, and Longformer's `sliding_window | global_tokens`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.core.mask import structure
from regard.core.mask.band import Dilated
from regard.core.mask.expression import Mask, Or
from regard.core.mask.structure import Structure
from regard.core.mask.tokens import GlobalTokens


@dataclass(frozen=True)
class LocalForm:
    """Query i stands at offset + i and sees keys from there - left * step to there + right * step, in steps.

    Attributes:
        left, right: Keys on each side.
        offset: Position of query 0.
        step: 1 for a window; with another one there are no columns and rows.
        columns: Keys that all queries see, sorted.
        rows: Positions of the queries that see all keys, sorted.
        outer: (left, right), None is unbounded: what columns and rows are cut to, such as (None, 0) under `causal()`.
    """

    left: int
    right: int
    offset: int = 0
    step: int = 1
    columns: tuple[int, ...] = ()
    rows: tuple[int, ...] = ()
    outer: tuple[int | None, int | None] = (None, None)


def local_form(form: Structure) -> LocalForm | None:
    """The local form of a mask, its key padding left aside; None where it has none. Reads no tensor."""
    if form.bound or not isinstance(form.offset, int) or form.documents or len(form.rest) > 1:
        return None
    if not form.rest:
        return None if form.left is None or form.right is None else LocalForm(form.left, form.right, form.offset)
    (odd,) = form.rest
    if isinstance(odd, Dilated):
        plain = not form.banded and odd.left is not None and odd.right is not None
        return LocalForm(odd.left or 0, odd.right or 0, form.offset, odd.step) if plain else None
    return _with_global_tokens(odd, form) if isinstance(odd, Or) else None


def _with_global_tokens(odd: Or, form: Structure) -> LocalForm | None:
    tokens = [part for part in odd.parts if isinstance(part, GlobalTokens)]
    bands: list[Mask] = [part for part in odd.parts if not isinstance(part, GlobalTokens)]
    inner = structure.of(bands[0]) if len(bands) == 1 else None
    if inner is None or inner.rest or inner.documents or inner.padding or inner.bound:
        return None
    left, right = _nearer(inner.left, form.left), _nearer(inner.right, form.right)
    if left is None or right is None or not isinstance(form.offset, int):
        return None
    columns = sorted({token for part in tokens for token in part.tokens})
    rows = sorted({token for part in tokens if part.queries for token in part.tokens})
    return LocalForm(left, right, form.offset, 1, tuple(columns), tuple(rows), (form.left, form.right))


def _nearer(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else min(one, other)


@dataclass(frozen=True)
class Residue:
    """The queries and keys of one residue class of a dilated window, which is a plain window among themselves."""

    queries: slice
    keys: slice
    offset: int


def residues(form: LocalForm, T: int) -> list[Residue]:
    """The classes of a form: for step 1, one of everything."""
    classes = []
    for first in range(min(form.step, T)):
        start = (first + form.offset) % form.step
        away = (first + form.offset - start) // form.step
        classes.append(Residue(slice(first, None, form.step), slice(start, None, form.step), away))
    return classes


def seen_locally(form: LocalForm, mark: Tensor, keep: Tensor | None, T: int) -> Tensor:
    """Which queries see a key that is marked.

    Args:
        mark: (B, Hkv, S) bool.
        keep: (B or 1, 1, S) bool, or None: keys that are not kept are seen by nobody.

    Returns:
        (B, Hkv, T) bool, in time and memory linear in T + S.
    """
    mark = mark if keep is None else mark & keep
    if form.step > 1:
        found = mark.new_zeros(*mark.shape[:2], T)
        for part in residues(form, T):
            marked = mark[:, :, part.keys]
            count = found[:, :, part.queries].shape[2]
            found[:, :, part.queries] = seen_in_band(marked, part.offset, form.left, form.right, count)
        return found
    found = seen_in_band(mark, form.offset, form.left, form.right, T)
    position = torch.arange(T, device=mark.device) + form.offset
    for column in (c for c in form.columns if c < mark.shape[2]):
        found = found | (mark[:, :, column, None] & between(column - position, *form.outer))
    if form.rows:
        seen = seen_in_band(mark, form.offset, *form.outer, T)
        found = torch.where(torch.isin(position, torch.tensor(form.rows, device=mark.device)), seen, found)
    return found


def seen_in_band(mark: Tensor, offset: int, left: int | None, right: int | None, T: int) -> Tensor:
    """(B, Hkv, T) bool: whether any of (B, Hkv, S) is marked from offset + i - left to offset + i + right."""
    S = mark.shape[2]
    count = torch.nn.functional.pad(mark.long().cumsum(dim=-1), (1, 0))  # (B, Hkv, S + 1): marked before each
    position = torch.arange(T, device=mark.device) + offset
    first = torch.zeros_like(position) if left is None else (position - left).clamp(0, S)
    end = torch.full_like(position, S) if right is None else (position + right + 1).clamp(0, S)
    return count[:, :, end] > count[:, :, first]


def between(distance: Tensor, left: int | None, right: int | None) -> Tensor:
    """-left <= distance <= right, elementwise; None is unbounded."""
    inside = torch.ones_like(distance, dtype=torch.bool)
    if left is not None:
        inside = inside & (distance >= -left)
    return inside if right is None else inside & (distance <= right)
