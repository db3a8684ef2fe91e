"""Masks of chosen tokens: a prefix that everybody sees, and global tokens that see and are seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from regard.core.errors import MaskError
from regard.core.mask.expression import Mask
from regard.core.mask.places import Places, check_offset
from regard.core.mask.tree import leaf


def prefix(n: int | Tensor) -> Mask:
    """Every query sees the first n keys, and no other. `causal() | prefix(n)` is the prefix language model.

    Args:
        n: int >= 0, or (B,) integer: a length per sample.
    """
    if isinstance(n, Tensor):
        if n.ndim != 1 or n.dtype not in (torch.int64, torch.int32):
            raise MaskError(
                f"n of prefix() must be an int or an integer tensor (B,), got {n.dtype} of shape {tuple(n.shape)}"
            )
    elif not isinstance(n, int) or isinstance(n, bool) or n < 0:
        raise MaskError(f"n of prefix() must be an int >= 0 or an integer tensor (B,), got {n!r}")
    return Prefix(n)


def global_tokens(tokens: int | Sequence[int], *, queries: bool = True, offset: int | Tensor | None = None) -> Mask:
    """Tokens that every query sees and that see every key: their columns and their rows.

    Args:
        tokens: Absolute position, or several.
        queries: False keeps the columns only.
        offset: As for `causal`; needed where T != S and `queries`.
    """
    places = (tokens,) if isinstance(tokens, int) else tuple(int(token) for token in tokens)
    if any(token < 0 for token in places):
        raise MaskError(f"global_tokens() takes absolute positions >= 0, got {list(places)}")
    check_offset("global_tokens", offset)
    return GlobalTokens(places, queries, offset)


@leaf
@dataclass(frozen=True, eq=False, repr=False)
class Prefix(Mask):
    """key < n."""

    n: int | Tensor
    children: ClassVar[tuple[str, ...]] = ("n",)

    def check(self, places: Places) -> None:
        if isinstance(self.n, Tensor):
            places.require_batch("n of prefix()", self.n.shape[0])

    def allowed(self, places: Places) -> Tensor:
        key = places.key()
        return key < (self.n.to(key.device)[:, None, None, None] if isinstance(self.n, Tensor) else self.n)

    def describe(self) -> str:
        return f"prefix(<{tuple(self.n.shape)}>)" if isinstance(self.n, Tensor) else f"prefix({self.n})"


@leaf
@dataclass(frozen=True, eq=False, repr=False)
class GlobalTokens(Mask):
    """key in tokens, or (with `queries`) query in tokens."""

    tokens: tuple[int, ...]
    queries: bool = True
    offset: int | Tensor | None = None
    children: ClassVar[tuple[str, ...]] = ("offset",)

    def check(self, places: Places) -> None:
        if self.queries:
            places.require_query_positions("global_tokens", "; queries=False keeps the columns only")

    def allowed(self, places: Places) -> Tensor:
        columns = _among(places.key(), self.tokens)
        return columns | _among(places.query(), self.tokens) if self.queries else columns

    def describe(self) -> str:
        rest = "" if self.queries else ", queries=False"
        if self.offset is not None:
            rest += f", offset={'<tensor>' if isinstance(self.offset, Tensor) else self.offset}"
        return f"global_tokens({list(self.tokens)}{rest})"


def _among(position: Tensor, tokens: tuple[int, ...]) -> Tensor:
    found = torch.zeros_like(position, dtype=torch.bool)
    for token in tokens:
        found = found | (position == token)
    return found
