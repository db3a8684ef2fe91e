"""Positions of tokens, as a caller gives them: integers, one row for each sample or one for all, padding negative.

Axes: B batch, T tokens.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.core.errors import CacheError, DtypeError, ShapeError


def check_positions(positions: Tensor, batch: int, tokens: int) -> None:
    """Refuse positions that are not integer (batch or 1, tokens).

    Raises:
        ShapeError: Another shape.
        DtypeError: Not integer.
    """
    if positions.dtype == torch.bool or positions.is_floating_point() or positions.is_complex():
        raise DtypeError(f"positions are integers, one for each token; got {positions.dtype}")
    if positions.dim() != 2 or positions.shape[0] not in (1, batch) or positions.shape[1] != tokens:
        raise ShapeError(
            f"positions have shape {tuple(positions.shape)}; {batch} sequences of {tokens} tokens need "
            f"({batch}, {tokens}), or (1, {tokens}) where all stand alike"
        )


def drop_from(stored: Tensor, new: Tensor) -> Tensor:
    """`stored` (1 or B, slots) with -1 for what stands at or after the first real position of `new` (1 or B, T)."""
    if new.shape[1] == 0:
        return stored
    return torch.where(stored >= _first(new), -1, stored)


def _first(positions: Tensor) -> Tensor:
    """(1 or B, 1): the first position that is not padding; very large where all is padding."""
    return torch.where(positions < 0, torch.iinfo(positions.dtype).max, positions).amin(dim=1, keepdim=True)


def check_not_lost(stored: Tensor, new: Tensor, length: int) -> None:
    """Refuse to go back to where a rolling cache has let go of the keys. Reads values, so not in compiled graphs."""
    if new.shape[1] == 0 or torch.compiler.is_compiling():
        return
    first, latest = torch.broadcast_tensors(_first(new), stored.amax(dim=1, keepdim=True))  # (1 or B, 1)
    lost = (first > 0) & (first <= latest) & (latest >= length)
    if lost.any():
        sample = int(lost[:, 0].nonzero()[0])
        raise CacheError(
            f"the cache keeps the latest {length} positions; sample {sample} stands at {int(latest[sample])} and cannot "
            f"go back to {int(first[sample])}; go on, start over at 0, or take a cache with rolling=False"
        )


def check_order(positions: Tensor) -> None:
    """Within a call, later tokens must stand later. Reads values, so it is left out of compiled graphs and single steps."""
    if positions.shape[1] < 2 or torch.compiler.is_compiling():
        return
    before = positions.cummax(dim=1).values[:, :-1]
    wrong = (positions[:, 1:] >= 0) & (positions[:, 1:] <= before)
    if wrong.any():
        sample, token = (int(i) for i in wrong.nonzero()[0])
        raise ShapeError(
            f"positions must increase within a sample: sample {sample} has {int(before[sample, token])} and later "
            f"{int(positions[sample, token + 1])}; give padding tokens the position -1, and each sequence its own row"
        )
