"""Packed rows as other libraries describe them: cu_seqlens, the edges of documents that lie one after the other."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
from torch import Tensor

from regard.core.errors import MaskError
from regard.core.mask.sequences import Documents
from regard.core.mask.spans import remember_documents, spans_of


def from_cu_seqlens(cu_seqlens: Tensor | Sequence[int], *, length: int | None = None) -> Documents:
    """The documents of one packed row: document n is tokens cu_seqlens[n] to cu_seqlens[n + 1] - 1.

    Args:
        cu_seqlens: (N + 1,) integers, increasing, from 0: where each document begins, and where the last ends.
        length: S of the row; None is the end of the last document. What comes after that is padding.

    Raises:
        MaskError: other shapes, a first entry that is not 0, entries that decrease, or a length before the end.
    """
    edges = [int(edge) for edge in cu_seqlens]
    if len(edges) < 2 or edges[0] != 0 or any(a > b for a, b in itertools.pairwise(edges)):
        raise MaskError(f"cu_seqlens are the edges of documents, from 0 and increasing, got {edges[:8]}")
    length = edges[-1] if length is None else length
    if length < edges[-1]:
        raise MaskError(f"the documents end at {edges[-1]}, and length is {length}; it must be at least as long")
    ids = torch.full((1, length), -1)
    for number, (begin, end) in enumerate(itertools.pairwise(edges)):
        ids[0, begin:end] = number
    ids = ids.to(cu_seqlens.device) if isinstance(cu_seqlens, Tensor) else ids
    remember_documents(ids)
    return Documents(ids)


def to_cu_seqlens(mask: Documents) -> Tensor:
    """(N + 1,) int32: the edges of the documents of a batch whose rows are laid one after the other, padding dropped.

    Raises:
        MaskError: no document mask, ids that cannot be read here, or an id that comes back after another.
    """
    if not isinstance(mask, Documents):
        raise MaskError(f"only documents(ids) has cu_seqlens, got {mask!r}")
    remember_documents(mask.ids)
    spans = spans_of(mask.ids)
    if spans is None:
        raise MaskError(f"{mask!r} has no cu_seqlens: its ids cannot be read here, or an id comes back after another")
    counts = [end - begin for sample in spans for begin, end in sample]
    return torch.tensor([0, *counts], device=mask.ids.device).cumsum(0).to(torch.int32)
