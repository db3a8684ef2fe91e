"""What a layer's mask means when the keys come from a cache: measured by where tokens stand, not by row and column.

Axes: B batch, H query heads, T new tokens, S keys so far.

Distances (causal, windows) are measured by position, so they are right for samples of different lengths and for a
rolling cache. Whether a token is padding was decided for the token, in the order in which tokens came.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.core.errors import CacheError, MaskError, ShapeError
from regard.core.mask import structure
from regard.core.mask.band import Band, sliding_window
from regard.core.mask.expression import And, Mask
from regard.core.mask.sequences import Documents, Lengths, Padding
from regard.core.mask.table import Dense, from_bool
from regard.nn.kv_cache import KVCache


def combine(own: Mask | None, given: Mask | Tensor | None) -> Mask | None:
    """The layer's mask and the call's mask, both of which must attend."""
    if given is None:
        return own
    given = given if isinstance(given, Mask) else from_bool(given)
    return given if own is None else own & given


def window_of(mask: Mask | None) -> int | None:
    """How many keys the mask can reach, counted back from the query and with it; None where there is no such limit."""
    form = structure.of(mask)
    return None if form.left is None else form.left + 1


class CachedMask:
    """The mask of one call with a cache: what it hides, and what the cache must know before it takes the tokens in.

    Args:
        own: The layer's mask.
        given: The call's mask; a bare bool tensor is (T, S) or broadcastable to (B, H, T, S), S counting all keys.
        positions: (B or 1, T) as the caller gave them, or None.
        cache: Not changed.
        sizes: (B, H, T) of the call.

    Attributes:
        positions: What to append with: None, or the caller's, with -1 for what the mask says is padding.
        stand: Where queries and keys will stand.
        mask: What to attend with.

    Raises:
        MaskError, ShapeError: The mask shows the future to a token, or does not fit.
        CacheError: The mask reaches further back than a rolling cache does.
    """

    def __init__(
        self,
        own: Mask | None,
        given: Mask | Tensor | None,
        positions: Tensor | None,
        cache: KVCache,
        sizes: tuple[int, int, int],
    ):
        mask = combine(own, given)
        _check_past_only(mask, sizes[2])
        _check_reach(mask, cache)
        self.positions = positions
        self._keep: Tensor | None = None  # (B, S), by order of arrival
        if positions is not None or not cache.aligned:
            mask = self._settle_padding(mask, cache, sizes[2])
        self.stand = cache.stand(sizes[2], self.positions)
        self.mask = self._fit(mask, cache, sizes)

    def _settle_padding(self, mask: Mask | None, cache: KVCache, tokens: int) -> Mask | None:
        """Say padding as the position -1: `keep` goes by the order of arrival, which positions no longer tell."""
        factors = () if mask is None else mask.parts if isinstance(mask, And) else (mask,)
        others = []
        for factor in factors:
            if isinstance(factor, Documents | Dense):
                raise MaskError(
                    f"{factor!r} with a cache counts tokens as they came; leave positions out, and hide padding with "
                    "padding(keep)"
                )
            if isinstance(factor, Padding):
                self._hide(factor.keep, cache, tokens)
            else:
                others.append(factor)
        return None if not others else others[0] if len(others) == 1 else And(tuple(others))

    def _hide(self, keep: Tensor, cache: KVCache, tokens: int) -> None:
        if keep.shape[1] != cache.seen + tokens:
            raise ShapeError(
                f"keep of padding() covers {keep.shape[1]} tokens; the cache has taken {cache.seen} and {tokens} come, "
                f"so it must be ({cache.batch}, {cache.seen + tokens})"
            )
        if cache.rolling and cache.aligned and cache.seen:
            raise MaskError(
                f"the rolling cache has taken {cache.seen} tokens without positions, so padding() cannot be told from "
                "positions now; give positions from the first token on, or never"
            )
        positions = cache.next_positions(tokens) if self.positions is None else self.positions
        keep = keep.to(positions.device)
        self.positions = torch.where(keep[:, cache.seen :], positions, -1)
        self._keep = keep if self._keep is None else self._keep & keep

    def _fit(self, mask: Mask | None, cache: KVCache, sizes: tuple[int, int, int]) -> Mask | None:
        B, H, T = sizes
        queries, keys, offset = self.stand
        if offset is not None and (mask is None or (T == 1 and _hides_nothing_before(mask, offset))):
            return None
        fitted = sliding_window() if mask is None else mask
        if offset is not None and fitted.offset is None and _by_column(fitted):
            fitted = fitted & sliding_window(offset=offset)
        else:
            if self._keep is not None and not cache.rolling:  # a rolling cache was told when each token came
                keys = torch.where(self._keep, keys, -1)
            length = cache.seen + T if cache.aligned and self.positions is None else None
            fitted = fitted.at(queries, keys, length=length)
        fitted.places(T, keys.shape[1], batch=B, heads=H)  # refuses now, while the cache is unchanged
        return fitted


def _hides_nothing_before(mask: Mask, position: int) -> bool:
    """Whether a query at this position sees all of 0 .. position, as far as bands can tell."""
    form = structure.of(mask)
    near = form.left is not None and form.left < position
    return form.plain and mask.offset is None and not form.padding and not near and form.right in (None, 0)


def _by_column(mask: Mask) -> bool:
    """Whether every part reads the same at an offset as at the positions that the offset stands for."""
    parts = mask.parts if isinstance(mask, And) else (mask,)
    return all(isinstance(part, Band | Padding | Lengths | Documents) for part in parts)


def _check_past_only(mask: Mask | None, tokens: int) -> None:
    """Refuse what can be seen not to be causal: the result would depend on how many tokens come at a time."""
    form = structure.of(mask)
    if form.rest:
        return  # a prefix, global tokens, a mask written out: only the author knows
    if form.right is not None and form.right > 0:
        raise MaskError(
            f"{mask!r} looks {form.right} tokens ahead, and a cache holds only the past; add causal(), "
            "or leave the cache out"
        )
    if form.right is None and tokens > 1:
        raise MaskError(
            f"{tokens} new tokens at once would see each other's future, for nothing makes them causal; "
            "give mask=causal(), or one token at a time"
        )


def _check_reach(mask: Mask | None, cache: KVCache) -> None:
    if not cache.rolling:
        return
    window = window_of(mask)
    if window is None or window > cache.length:
        reach = "all that came before" if window is None else f"back over {window} keys"
        raise CacheError(
            f"the cache keeps the latest {cache.length} keys and the mask sees {reach}; give the layer "
            f"causal() & sliding_window(left={cache.length - 1}), or take a cache with rolling=False"
        )
