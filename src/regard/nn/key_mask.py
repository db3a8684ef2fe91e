"""The masks of layers that never write out a query with a key: causal, key padding, or both; any other is refused.

Axes: B samples, H heads, T queries, S keys.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from regard.core.errors import MaskError, ShapeError
from regard.core.mask import structure
from regard.core.mask.expression import Mask
from regard.core.mask.places import Places
from regard.core.mask.table import Dense, from_bool


class KeyMask(NamedTuple):
    """What a mask says."""

    causal: bool  # no query sees a later key
    keep: Tensor | None  # (B or 1, S) bool, True = a key to be seen


def read(
    mask: Mask | Tensor | None, sizes: tuple[int, int, int, int], device: torch.device, *, owner: str, seen: int = 0
) -> KeyMask:
    """Split a mask into what such a layer can do.

    Args:
        mask: `causal()`, `padding(...)`, both joined with `&`, or a bool tensor (B or 1, 1, 1, S), True = attend.
        sizes: (B, H, T, S) of the call; with a cache, S counts all the keys so far.
        device: Where the queries lie.
        owner: The layer's name, for the text.
        seen: Keys in the cache before this call; `keep` is then returned for the T new ones.

    Raises:
        MaskError: Any other mask.
        ShapeError: A mask that does not fit the sizes.
    """
    if mask is None:
        return KeyMask(False, None)
    B, H, T, S = sizes
    expression = mask if isinstance(mask, Mask) else from_bool(mask)
    form = structure.of(expression)
    written = [part.attend for part in form.rest if isinstance(part, Dense) and part.attend.shape[1:3] == (1, 1)]
    others = len(form.rest) - len(written) + len(form.documents)
    shifted = form.banded and not (isinstance(form.offset, int) and form.offset == 0)
    if form.bound or others or form.left is not None or form.right not in (None, 0) or shifted:
        raise MaskError(
            f"{owner} never writes out a query with a key, so it cannot apply {expression!r}; it takes causal(), "
            "padding(keep), both joined with &, or a bool tensor (B, 1, 1, S) that hides keys; "
            "MultiHeadAttention takes every mask"
        )
    places = Places(T, S, B, H, device)
    if seen == 0:
        expression.check(places)  # among the rest: causal() where T != S
    keep = form.key_mask(places) if form.padding else None
    if seen:
        for part in form.padding:
            part.check(places)
    for table in written:
        if table.shape[3] not in (1, S):
            raise ShapeError(
                f"the mask covers {table.shape[3]} keys, but there are {S} so far; it must cover all of them"
            )
        table = table.to(device)
        keep = table if keep is None else keep & table
    if keep is None:
        return KeyMask(form.right == 0, None)
    keep = keep[:, 0, 0].expand(-1, S)
    return KeyMask(form.right == 0, keep[:, seen:])
