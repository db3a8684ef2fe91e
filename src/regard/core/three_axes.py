"""Query, key and value of three axes, (N, T, D): N separate attentions of one head each, as torch reads them.

A leading axis that is samples and one that is heads give the same numbers, so nothing is guessed. What names heads (a sink, a bias of
several heads) does not fit one head and is refused by the checks that follow; with four axes, a mask of three stays refused,
since (B, T, S) and (H, T, S) differ there.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor


def is_three(query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Whether all of the three have three axes; a mixture is refused later, with the way out."""
    return all(isinstance(x, Tensor) and x.ndim == 3 for x in (query, key, value))


def lifted(
    query: Tensor, key: Tensor, value: Tensor, given: dict[str, Any]
) -> tuple[Tensor, Tensor, Tensor, dict[str, Any]]:
    """The same with an axis for the one head; a mask or bias (N, T, S) gets it too."""
    given = {name: x[:, None] if _has_three(name, x) else x for name, x in given.items()}
    return query[:, None], key[:, None], value[:, None], given


def _has_three(name: str, x: Any) -> bool:
    return name in ("mask", "bias") and isinstance(x, Tensor) and x.ndim == 3
